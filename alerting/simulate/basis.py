"""The basis of a simulation: the rule versions in force, and what was known at the time.

There are two kinds. In a back-dated simulation, a rule has always been in force, and a store can be
silent from the day after its first event. In a simulation "as published", everything is as the
evaluators had it; otherwise a difference from the alerts that they sent would mean nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs

from alerting.evaluate.scope.rule_set import RuleSet, RuleVersions, VersionedRule
from alerting.evaluate.scope.stores import begin_stores
from alerting.evaluate.snapshot.calendar import start_of_window
from alerting.evaluate.state.memory import PartitionMemory
from alerting.rules.rule import Rule, RuleVersion
from alerting.simulate.state import EvaluatorState
from tally.alerts.tick import NO_TICK, Tick
from tally.time.windows import WINDOW_MILLIS

_ALWAYS = 0
# The UTC day of the first event, by family and store.
StoreFirstDays = Mapping[str, Mapping[str, date]]


class SimulationBasis(NamedTuple):
    """The rule, the rules that it waits for, and by partition the state of the evaluators.

    `evaluator_states`: None if the simulation is back-dated. `now`: milliseconds since 1970 (UTC).
    """

    rule_id: str
    rules: RuleSet
    now: int
    evaluator_states: Mapping[int, EvaluatorState] | None = None

    @property
    def rule(self) -> VersionedRule | None:
        """The rule; None where no version of it can be judged."""
        return next((rule for rule in self.rules.rules if rule.rule_id == self.rule_id), None)

    @property
    def is_per_article(self) -> bool:
        """Whether the rule, or one that it waits for, judges articles one by one."""
        return any(rule.is_cumulative for rule in self.rules.rules)

    def build_memory(self, number: int, stores: StoreFirstDays) -> PartitionMemory:
        """The memory that an evaluator of the partition would have.

        `stores`: the first days of its stores, by family.
        """
        memory = PartitionMemory(number)
        if self.evaluator_states is None:
            # The tick says that no family was read: windows without a generation are not known.
            memory.tick = Tick(at=self.now)
        elif number in self.evaluator_states:
            # The evaluator's tick counts, not now: it has not sent alerts for later windows.
            evaluated = self.evaluator_states[number]
            memory.tick = evaluated.last_tick
            memory.silent_from, memory.evaluated_days = (
                {**evaluated.silent_from},
                {**evaluated.evaluated_days},
            )
            memory.chains.load_forced_ends(evaluated.forced_ends)
        begin_stores(memory, stores)
        return memory

    def last_window_end(self, number: int) -> int:
        """The end of the last window that may be judged in the partition, ms since 1970 (UTC)."""
        if self.evaluator_states is None:
            return start_of_window(self.now) + WINDOW_MILLIS
        at = (
            self.evaluator_states[number].last_tick.at
            if number in self.evaluator_states
            else NO_TICK.at
        )
        return start_of_window(at) + WINDOW_MILLIS if at else 0


def backdate_rules(chains: RuleVersions) -> dict[str, Sequence[RuleVersion]]:
    """Each rule as if its first version had always been in force."""
    return {
        rule_id: (structs.replace(chain[0], effective_from=_ALWAYS), *chain[1:])
        for rule_id, chain in chains.items()
    }


def replace_rule(chains: RuleVersions, rule: Rule) -> dict[str, Sequence[RuleVersion]]:
    """The rules with this one replacing all its versions from the begin of the first of them."""
    own = chains.get(rule.rule_id, ())
    # It gets a number of its own, because no alert was sent under this version.
    since = own[0].effective_from if own else _ALWAYS
    number = own[-1].version + 1 if own else 1
    replacement = RuleVersion(rule=rule, version=number, effective_from=since)
    return {**chains, rule.rule_id: (replacement,)}


def select_rules(chains: RuleVersions, rule_id: str) -> RuleSet:
    """The rule and all rules that it waits for, directly or indirectly."""
    # All versions are searched: an old one may wait for a rule that the newest does not name.
    found: dict[str, Sequence[RuleVersion]] = {}
    waiting = [rule_id]
    while waiting:
        name = waiting.pop()
        if name in chains and name not in found:
            found[name] = chains[name]
            waiting += _dependency_ids(chains[name])
    return RuleSet(found)


def _dependency_ids(chain: Iterable[RuleVersion]) -> Iterable[str]:
    return (name for version in chain for name in version.rule.unless)
