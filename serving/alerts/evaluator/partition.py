"""The judging of one partition at one moment: the alerts to publish, and the updated memory."""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial

from msgspec import structs

from serving.alerts.evaluator.calendar import StoreCalendarDays, start_of_window
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.judgements import Judgements, ReadNow
from serving.alerts.evaluator.memory import FamilyDay, JudgedDay, PartitionMemory
from serving.alerts.evaluator.messages import alert_message
from serving.alerts.evaluator.moment import ReadingWanted, ViewsMoment
from serving.alerts.evaluator.scope import NamedDays
from serving.alerts.evaluator.settling import SettledDays
from tally.alerts.days import DayLine, FoldedDays, refold
from tally.alerts.ids import Chain
from tally.alerts.judge import Basis, Transition, transitions
from tally.alerts.message import Alert, Reason
from tally.alerts.rule import version_at
from tally.alerts.told import ToldAlert
from tally.alerts.verdict import RAISES
from tally.instants import from_millis

DAY_MILLIS = timedelta(days=1) // timedelta(milliseconds=1)
_NEVER = 1 << 62
# Windows are frozen before they are forgotten: all that may still be judged has all its state.
JUDGED_BACK, REMEMBERED = 400 * DAY_MILLIS, 430 * DAY_MILLIS

# The reason by family and UTC day why numbers may have changed, if it is not late data.
Causes = Mapping[str, Mapping[date, Reason]]
# The messages of chain after chain, each list in the order of publishing.
ToldChains = Iterator[list[Alert]]


class PartitionJudge:
    """Judges the stores of a partition one after the other, each by one rule after the other."""

    def __init__(
        self, rules: JudgedRules, memory: PartitionMemory, moment: ViewsMoment, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._read_now = moment, read_now
        # The generations by which this pass judges days.
        self.judged_now: Mapping[FamilyDay, JudgedDay] = {}

    def wanted(self, store_id: str, named: NamedDays) -> Iterator[ReadingWanted]:
        """What has to be read to judge the days."""
        judgements = self._judgements()
        seen: set[Hashable] = set()
        for rule in self._rules.rules:
            for start in named.get(rule.rule_id, ()):
                # Checked once for each key: most rules read the same of a day.
                key = rule.readings(judgements.span(store_id, start)), start
                if key not in seen:
                    seen.add(key)
                    yield from judgements.wanted(rule, store_id, start)

    def judge(self, store_id: str, named: NamedDays, causes: Causes) -> ToldChains:
        """The messages of the store, chain by chain, in the order of publishing.

        The memory has the messages of a chain as published when they are returned. `named`: days by
        rule. What the rules of the store share is dropped after the store.
        """
        store = _StoreJudge(self._judgements(), self._memory, self._moment.days(store_id))
        for rule in self._rules.rules:
            days = {*named.get(rule.rule_id, ())}
            # Also the days on which a rule that this rule waits for was folded again.
            for other in self._rules.waits_for(rule, rule.unless) if rule.unless else ():
                days |= store.folded.get(other.rule_id, set())
            if days or rule.rule_id in named:
                yield from store.judge(rule, days, causes)

    def _judgements(self) -> Judgements:
        found = Judgements(self._rules, self._memory, self._moment, self._read_now)
        found.settled_days = SettledDays(self._memory, self.judged_now)
        return found


class _StoreJudge:
    """Judges one store; `folded`: the starts of the days that were folded, by rule id."""

    def __init__(
        self, judgements: Judgements, memory: PartitionMemory, days: StoreCalendarDays
    ) -> None:
        self._judgements, self._memory, self._days = judgements, memory, days
        self._starts = days.starts(first_judged(memory), judgements.end)
        before = memory.last.at
        self._new_from = days.day(before).end if before else 0
        new = bisect_left(self._starts, self._new_from)
        # The day before the first new day had not ended at the last judgement.
        self._first_new = max(0, new - 1) if new < len(self._starts) else new
        self.folded: dict[str, set[int]] = {}

    def judge(
        self,
        rule: JudgedRule,
        days: set[int],
        causes: Causes,
    ) -> ToldChains:
        """The messages of each of the rule's chains in this store."""
        store_id = self._days.store.store_id
        new = self._starts[max(self._first_new, self._first_day(rule)) :]
        looked_at = {*days, *new}
        named = sorted(days)
        place = rule.rule_id, store_id, min(named, default=_NEVER)
        live = self._memory.chains.subjects(*place)
        for chain in self._judgements.chains(rule, store_id, named):
            # Most chains have no published alert, and no alert is called for.
            if chain.subject in live or not self._stays_at_rest(rule, chain, looked_at):
                yield self._judge_chain(rule, chain, days, causes)

    def _stays_at_rest(self, rule: JudgedRule, chain: Chain, days: Iterable[int]) -> bool:
        """Whether a chain at rest is still at rest after the days are folded."""
        # A fold at rest stays at rest until a window raises.
        for day in days:
            if self._judgements.may_raise(rule, chain, day):
                for stretch in self._judgements.stretches(rule, chain, day):
                    if RAISES in stretch.verdicts:
                        return False
        return True

    def _judge_chain(
        self,
        rule: JudgedRule,
        chain: Chain,
        days: set[int],
        causes: Causes,
    ) -> list[Alert]:
        line = self._day_line(rule, chain, days)
        if line.count < 1:
            return []
        chains = self._memory.chains

        def alerts_since(instant: int) -> Iterable[ToldAlert]:
            return chains.alerts_since(chain, instant).values()

        judge_day = partial(self._judgements.stretches, rule, chain)
        refolding = refold(line, alerts_since, judge_day)
        # The memory is updated only at the end, because a read for a message may fail before.
        changed: dict[str, ToldAlert] = {}
        found: list[Alert] = []
        for stretch in refolding.stretches:
            before = chains.alerts_since(chain, stretch.since) | changed
            for transition in self._transitions(rule, chain, (stretch, before), causes):
                changed[transition.alert.alert_id] = transition.alert
                place = chain.store_id, transition.judged, chain.subject
                window = self._judgements.window(rule, *place)
                found.append(alert_message(rule, transition, window, self._memory.tick))
        for alert in changed.values():
            chains.tell(alert)
        for stretch, states in zip(refolding.stretches, refolding.states, strict=True):
            until = stretch.until if stretch.until < line.borders[-1] else None
            chains.set_days(chain, states, until)
        folded = self.folded.setdefault(rule.rule_id, set())
        folded.update(
            start for stretch_days in refolding.stretches for start in _starts(line, stretch_days)
        )
        return found

    def _transitions(
        self,
        rule: JudgedRule,
        chain: Chain,
        folded: tuple[FoldedDays, Mapping[str, ToldAlert]],
        causes: Causes,
    ) -> list[Transition]:
        stretch, alerts = folded
        if not alerts and not stretch.episodes:
            return []
        basis = self._basis(rule, alerts.values(), causes)
        found = transitions(chain, stretch, alerts.values(), basis)
        return [self._with_reason(rule, transition) for transition in found]

    def _with_reason(self, rule: JudgedRule, transition: Transition) -> Transition:
        if transition.reason is not None or transition.alert.edge == "raise":
            return transition
        reason = self._judgements.why_ended(rule, transition.alert.chain, transition.judged)
        return structs.replace(transition, reason=reason)

    def _day_line(self, rule: JudgedRule, chain: Chain, named: set[int]) -> DayLine:
        end = self._judgements.end
        starts = self._starts[self._first_day(rule) :] if rule.since < end else []
        return DayLine(
            borders=[*starts, end] if starts else [],
            states=self._memory.chains.line(chain),
            named=named,
            new_from=self._new_from,
        )

    def _first_day(self, rule: JudgedRule) -> int:
        """The number of the day that holds the rule's first window, at least 0."""
        return max(0, bisect_right(self._starts, rule.since) - 1)

    def _basis(self, rule: JudgedRule, alerts: Iterable[ToldAlert], causes: Causes) -> Basis:
        at = self._memory.tick.at
        newest = version_at(rule.versions, at) or rule.versions[0]
        days: dict[date, Reason] = {}
        for family in rule.families:
            days |= causes.get(family, {})
        windows = {alert.window: from_millis(alert.window).date() for alert in alerts}
        return Basis(
            at=at,
            late_after=newest.rule.delay + newest.rule.late_after,
            causes={window: days[day] for window, day in windows.items() if day in days},
        )


def first_judged(memory: PartitionMemory) -> int:
    """The start of the first window that is judged at all, ms since 1970 (UTC)."""
    return max(0, start_of_window(memory.tick.at - JUDGED_BACK))


def _starts(line: DayLine, stretch: FoldedDays) -> list[int]:
    return [start for start in line.borders[:-1] if stretch.start <= start < stretch.until]
