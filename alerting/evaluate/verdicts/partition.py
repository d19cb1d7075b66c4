"""The evaluation of one partition by one snapshot: alerts to publish, and the updated memory."""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import date
from functools import partial

from msgspec import structs

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import ChainDays, FoldedDays, refold
from alerting.episodes.alert_diff import EvaluationContext, Transition, diff_alerts
from alerting.episodes.verdict import RAISES
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.scope import RuleDays
from alerting.evaluate.snapshot.calendar import StoreCalendarDays, start_of_window
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.evaluate.verdicts.messages import alert_message
from alerting.evaluate.verdicts.verdicts import ReadNow, Verdicts
from alerting.rules.rule import version_at
from tally.alerts.message import Alert, Reason
from tally.time.instants import DAY_MILLIS, from_millis

_NEVER = 1 << 62
# Windows are frozen before they are forgotten: all that may still be evaluated has all its state.
EVALUATION_MILLIS, RETENTION_MILLIS = 400 * DAY_MILLIS, 430 * DAY_MILLIS

# The reason by family and UTC day why numbers may have changed, if it is not late data.
Causes = Mapping[str, Mapping[date, Reason]]
# The messages of chain after chain, each list in the order of publishing.
AlertBatches = Iterator[list[Alert]]


class PartitionEvaluator:
    """Evaluates the stores of a partition one after the other, each by one rule after the other."""

    def __init__(
        self, rules: RuleSet, memory: PartitionMemory, snapshot: SnapshotReader, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._snapshot, self._read_now = snapshot, read_now
        # The generations by which this pass evaluates days.
        self.current_days: Mapping[FamilyDay, EvaluatedDay] = {}

    def list_requests(self, store_id: str, named: RuleDays) -> Iterator[ReadRequest]:
        """What has to be read to evaluate the days."""
        verdicts = self._build_verdicts()
        seen: set[Hashable] = set()
        for rule in self._rules.rules:
            for start in named.get(rule.rule_id, ()):
                # Checked once for each key: most rules read the same of a day.
                key = rule.readings_key(verdicts.span(store_id, start)), start
                if key not in seen:
                    seen.add(key)
                    yield from verdicts.list_requests(rule, store_id, start)

    def evaluate(self, store_id: str, named: RuleDays, causes: Causes) -> AlertBatches:
        """The messages of the store, chain by chain, in the order of publishing.

        The memory has the messages of a chain as published when they are returned. `named`: days by
        rule. What the rules of the store share is dropped after the store.
        """
        days = self._snapshot.days(store_id)
        since = evaluation_start(self._memory)
        store = StoreEvaluator(self._rules, self._memory, self._build_verdicts(), days, since)
        return store.evaluate(named, causes)

    def _build_verdicts(self) -> Verdicts:
        reading = self._snapshot, self._read_now
        return Verdicts(self._rules, self._memory, *reading, self.current_days)


class StoreEvaluator:
    """Evaluates one store by one rule after the other.

    `since`: the start of the first window that is evaluated at all, ms since 1970 (UTC).
    """

    def __init__(
        self,
        rules: RuleSet,
        memory: PartitionMemory,
        verdicts: Verdicts,
        days: StoreCalendarDays,
        since: int,
    ) -> None:
        self._rules, self._memory = rules, memory
        self._verdicts, self._days = verdicts, days
        self._starts = days.starts(since, verdicts.end)
        before = memory.last_tick.at
        self._new_from = days.day(before).end if before else 0
        new = bisect_left(self._starts, self._new_from)
        # The day before the first new day had not ended at the last evaluation.
        self._first_new = max(0, new - 1) if new < len(self._starts) else new
        # The starts of the days that were folded, by rule id.
        self._folded_days: dict[str, set[int]] = {}

    def evaluate(self, named: RuleDays, causes: Causes) -> AlertBatches:
        """The messages of the store, chain by chain, as PartitionEvaluator.evaluate() has them."""
        for rule in self._rules.rules:
            days = {*named.get(rule.rule_id, ())}
            # Also the days on which a rule that this rule waits for was folded again.
            for other in self._rules.find_dependencies(rule, rule.unless) if rule.unless else ():
                days |= self._folded_days.get(other.rule_id, set())
            if days or rule.rule_id in named:
                yield from self._evaluate_rule(rule, days, causes)

    def _evaluate_rule(self, rule: VersionedRule, days: set[int], causes: Causes) -> AlertBatches:
        """The messages of each of the rule's chains in this store."""
        store_id = self._days.store.store_id
        new = self._starts[max(self._first_new, self._first_day(rule)) :]
        looked_at = {*days, *new}
        named = sorted(days)
        place = rule.rule_id, store_id, min(named, default=_NEVER)
        live = self._memory.chains.subjects(*place)
        for chain in self._verdicts.list_chains(rule, store_id, named):
            # Most chains have no published alert, and no alert is called for.
            if chain.subject in live or not self._stays_idle(rule, chain, looked_at):
                yield self._evaluate_chain(rule, chain, days, causes)

    def _stays_idle(self, rule: VersionedRule, chain: Chain, days: Iterable[int]) -> bool:
        """Whether a chain at rest is still at rest after the days are folded."""
        # A fold at rest stays at rest until a window raises.
        for day in days:
            if self._verdicts.may_raise(rule, chain, day):
                for verdict_range in self._verdicts.ranges(rule, chain, day):
                    if RAISES in verdict_range.verdicts:
                        return False
        return True

    def _evaluate_chain(
        self, rule: VersionedRule, chain: Chain, days: set[int], causes: Causes
    ) -> list[Alert]:
        line = self._day_line(rule, chain, days)
        if line.count < 1:
            return []
        chains = self._memory.chains

        def alerts_since(instant: int) -> Iterable[PublishedAlert]:
            return chains.alerts_since(chain, instant).values()

        evaluate_day = partial(self._verdicts.ranges, rule, chain)
        refolding = refold(line, alerts_since, evaluate_day)
        # The memory is updated only at the end, because a read for a message may fail before.
        changed: dict[str, PublishedAlert] = {}
        found: list[Alert] = []
        for folded_days in refolding.spans:
            before = chains.alerts_since(chain, folded_days.since) | changed
            for transition in self._transitions(rule, chain, (folded_days, before), causes):
                changed[transition.alert.alert_id] = transition.alert
                place = chain.store_id, transition.evaluated_window, chain.subject
                window = self._verdicts.find_window(rule, *place)
                found.append(alert_message(rule, transition, window, self._memory.tick))
        for alert in changed.values():
            chains.store_alert(alert)
        for folded_days, states in zip(refolding.spans, refolding.states, strict=True):
            until = folded_days.until if folded_days.until < line.boundaries[-1] else None
            chains.set_days(chain, states, until)
        folded = self._folded_days.setdefault(rule.rule_id, set())
        folded.update(
            start for folded_days in refolding.spans for start in _starts(line, folded_days)
        )
        return found

    def _transitions(
        self,
        rule: VersionedRule,
        chain: Chain,
        folded: tuple[FoldedDays, Mapping[str, PublishedAlert]],
        causes: Causes,
    ) -> list[Transition]:
        folded_days, alerts = folded
        if not alerts and not folded_days.episodes:
            return []
        basis = self._basis(rule, alerts.values(), causes)
        found = diff_alerts(chain, folded_days, alerts.values(), basis)
        return [self._with_reason(rule, transition) for transition in found]

    def _with_reason(self, rule: VersionedRule, transition: Transition) -> Transition:
        if transition.reason is not None or transition.alert.edge == "raise":
            return transition
        reason = self._verdicts.end_reason(
            rule, transition.alert.chain, transition.evaluated_window
        )
        return structs.replace(transition, reason=reason)

    def _day_line(self, rule: VersionedRule, chain: Chain, named: set[int]) -> ChainDays:
        end = self._verdicts.end
        starts = self._starts[self._first_day(rule) :] if rule.since < end else []
        return ChainDays(
            boundaries=[*starts, end] if starts else [],
            states=self._memory.chains.fold_line(chain),
            changed_days=named,
            new_from=self._new_from,
        )

    def _first_day(self, rule: VersionedRule) -> int:
        """The number of the day that holds the rule's first window, at least 0."""
        return max(0, bisect_right(self._starts, rule.since) - 1)

    def _basis(
        self, rule: VersionedRule, alerts: Iterable[PublishedAlert], causes: Causes
    ) -> EvaluationContext:
        at = self._memory.tick.at
        newest = version_at(rule.versions, at) or rule.versions[0]
        days: dict[date, Reason] = {}
        for family in rule.families:
            days |= causes.get(family, {})
        windows = {alert.window: from_millis(alert.window).date() for alert in alerts}
        return EvaluationContext(
            at=at,
            late_after=newest.rule.delay + newest.rule.late_after,
            retraction_reasons={
                window: days[day] for window, day in windows.items() if day in days
            },
        )


def evaluation_start(memory: PartitionMemory) -> int:
    """The start of the first window that is evaluated at all, ms since 1970 (UTC)."""
    return max(0, start_of_window(memory.tick.at - EVALUATION_MILLIS))


def _starts(line: ChainDays, folded_days: FoldedDays) -> list[int]:
    return [
        start for start in line.boundaries[:-1] if folded_days.start <= start < folded_days.until
    ]
