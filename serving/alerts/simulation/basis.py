"""By what a simulation judges: the versions that are in force, and what is known of the time.

Two of them. Back-dated, a rule has been in force since ever, and a store is silent from the day
after its first event on. As told, all is as the evaluators had it: else a difference to what they
told would say nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import start_of_window
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules, RuleVersions
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.stores import begin_stores
from serving.alerts.simulation.state import EvaluatedBy
from tally.alerts.rule import Rule, RuleVersion
from tally.alerts.tick import NO_TICK, Tick
from tally.windows import WINDOW_MILLIS

_ALWAYS = 0
# By family and store the UTC day of its first event.
FirstDaysOf = Mapping[str, Mapping[str, date]]


class SimulationBasis(NamedTuple):
    """The rule with those that it waits for, and by partition what the evaluators have judged by.

    `evaluated`: None where it is back-dated. `now`: milliseconds since 1970 (UTC).
    """

    rule_id: str
    rules: JudgedRules
    now: int
    evaluated: Mapping[int, EvaluatedBy] | None = None

    @property
    def rule(self) -> JudgedRule | None:
        """The rule; None where no version of it can be judged."""
        return next((one for one in self.rules.rules if one.rule_id == self.rule_id), None)

    @property
    def is_of_articles(self) -> bool:
        """Whether the rule, or one that it waits for, judges articles one by one."""
        return any(one.carries_over for one in self.rules.rules)

    def memory(self, number: int, stores: FirstDaysOf) -> PartitionMemory:
        """What an evaluator of the partition would go by; `stores`: by family their first days."""
        memory = PartitionMemory(number)
        if self.evaluated is None:
            # Of no family anything was read: what no generation serves is not known.
            memory.tick = Tick(at=self.now)
        elif number in self.evaluated:
            # By its tick and not by now: what it has not come to it has not told either.
            by = self.evaluated[number]
            memory.tick = by.tick
            memory.silent_from, memory.judged = {**by.silent_from}, {**by.judged}
            memory.chains.recall_all_forced(by.forced)
        begin_stores(memory, stores)
        return memory

    def until(self, number: int) -> int:
        """End of the last window that may be looked at in the partition, ms since 1970 (UTC)."""
        if self.evaluated is None:
            return start_of_window(self.now) + WINDOW_MILLIS
        at = self.evaluated[number].tick.at if number in self.evaluated else NO_TICK.at
        return start_of_window(at) + WINDOW_MILLIS if at else 0


def backdated(chains: RuleVersions) -> dict[str, Sequence[RuleVersion]]:
    """Each rule as if its first version had always been in force."""
    return {
        rule_id: (structs.replace(chain[0], effective_from=_ALWAYS), *chain[1:])
        for rule_id, chain in chains.items()
    }


def in_place_of(chains: RuleVersions, rule: Rule) -> dict[str, Sequence[RuleVersion]]:
    """The rules with this one in the place of all its versions, since the first of them began."""
    own = chains.get(rule.rule_id, ())
    # With a number of its own: it is none of the versions that were told of.
    since = own[0].effective_from if own else _ALWAYS
    number = own[-1].version + 1 if own else 1
    made = RuleVersion(rule=rule, version=number, effective_from=since)
    return {**chains, rule.rule_id: (made,)}


def needed_rules(chains: RuleVersions, rule_id: str) -> JudgedRules:
    """The rule, and all that it waits for however far: no others are looked at."""
    # Named by any version: an old one may wait for a rule that the newest does not name.
    found: dict[str, Sequence[RuleVersion]] = {}
    waiting = [rule_id]
    while waiting:
        name = waiting.pop()
        if name in chains and name not in found:
            found[name] = chains[name]
            waiting += _waited_for(chains[name])
    return JudgedRules(found)


def _waited_for(chain: Iterable[RuleVersion]) -> Iterable[str]:
    return (name for one in chain for name in one.rule.unless)
