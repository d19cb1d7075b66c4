"""One partition judged at one moment: what of it is to be told, and what its memory has then."""

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
# Frozen before forgotten: what may still be judged has all its state.
JUDGED_BACK, REMEMBERED = 400 * DAY_MILLIS, 430 * DAY_MILLIS

# By family and UTC day why its numbers may have changed, where that is no late data.
Causes = Mapping[str, Mapping[date, Reason]]
# Of chain after chain what is to be told, in its order.
ToldChains = Iterator[list[Alert]]


class PartitionJudge:
    """Judges the stores of a partition one after the other, each by rule after rule."""

    def __init__(
        self, rules: JudgedRules, memory: PartitionMemory, moment: ViewsMoment, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._read_now = moment, read_now
        # By what this pass judges days.
        self.judged_now: Mapping[FamilyDay, JudgedDay] = {}

    def wanted(self, store_id: str, named: NamedDays) -> Iterator[ReadingWanted]:
        """What has to be read to judge the days."""
        judgements = self._judgements()
        seen: set[Hashable] = set()
        for rule in self._rules.rules:
            for start in named.get(rule.rule_id, ()):
                # Most rules read the same of a day.
                of = rule.readings(judgements.span(store_id, start)), start
                if of not in seen:
                    seen.add(of)
                    yield from judgements.wanted(rule, store_id, start)

    def judge(self, store_id: str, named: NamedDays, causes: Causes) -> ToldChains:
        """The messages of the store chain by chain, in the order of telling; the memory has those
        of a chain as told.

        `named`: days by rule. What is made for the rules together is dropped behind the store.
        """
        store = _StoreJudge(self._judgements(), self._memory, self._moment.days(store_id))
        for rule in self._rules.rules:
            days = {*named.get(rule.rule_id, ())}
            # Those too on which one that it waits for was folded anew.
            for other in self._rules.waits_for(rule, rule.unless) if rule.unless else ():
                days |= store.folded.get(other.rule_id, set())
            if days or rule.rule_id in named:
                yield from store.judge(rule, days, causes)

    def _judgements(self) -> Judgements:
        found = Judgements(self._rules, self._memory, self._moment, self._read_now)
        found.settled_days = SettledDays(self._memory, self.judged_now)
        return found


class _StoreJudge:
    """Judges one store; `folded`: by rule the starts of the days that were folded."""

    def __init__(
        self, judgements: Judgements, memory: PartitionMemory, days: StoreCalendarDays
    ) -> None:
        self._judgements, self._memory, self._days = judgements, memory, days
        self._starts = days.starts(first_judged(memory), judgements.end)
        before = memory.last.at
        self._new_from = days.day(before).end if before else 0
        new = bisect_left(self._starts, self._new_from)
        # The one before the first new one had no end yet.
        self._first_new = max(0, new - 1) if new < len(self._starts) else new
        self.folded: dict[str, set[int]] = {}

    def judge(
        self,
        rule: JudgedRule,
        days: set[int],
        causes: Causes,
    ) -> ToldChains:
        """The messages of each of the rule's chains."""
        store_id = self._days.store.store_id
        new = self._starts[max(self._first_new, self._first(rule)) :]
        looked_at = {*days, *new}
        named = sorted(days)
        of = rule.rule_id, store_id, min(named, default=_NEVER)
        live = self._memory.chains.subjects(*of)
        for chain in self._judgements.chains(rule, store_id, named):
            # Of most nothing was ever told, and nothing is called for.
            if chain.subject in live or not self._rests(rule, chain, looked_at):
                yield self._chain(rule, chain, days, causes)

    def _rests(self, rule: JudgedRule, chain: Chain, days: Iterable[int]) -> bool:
        """Whether folding the days makes nothing of a chain of which nothing was made before."""
        # At rest a fold stays there until something raises.
        for day in days:
            if self._judgements.may_raise(rule, chain, day):
                for one in self._judgements.stretches(rule, chain, day):
                    if RAISES in one.verdicts:
                        return False
        return True

    def _chain(
        self,
        rule: JudgedRule,
        chain: Chain,
        days: set[int],
        causes: Causes,
    ) -> list[Alert]:
        line = self._line(rule, chain, days)
        if line.count < 1:
            return []
        chains = self._memory.chains

        def told_since(instant: int) -> Iterable[ToldAlert]:
            return chains.alerts_since(chain, instant).values()

        judged_of = partial(self._judgements.stretches, rule, chain)
        refolding = refold(line, told_since, judged_of)
        # Remembered at the end: what is read for a message may be out of reach.
        told: dict[str, ToldAlert] = {}
        found: list[Alert] = []
        for stretch in refolding.stretches:
            before = chains.alerts_since(chain, stretch.since) | told
            for one in self._transitions(rule, chain, (stretch, before), causes):
                told[one.alert.alert_id] = one.alert
                place = chain.store_id, one.judged, chain.subject
                window = self._judgements.window(rule, *place)
                found.append(alert_message(rule, one, window, self._memory.tick))
        for alert in told.values():
            chains.tell(alert)
        for stretch, states in zip(refolding.stretches, refolding.states, strict=True):
            until = stretch.until if stretch.until < line.borders[-1] else None
            chains.set_days(chain, states, until)
        folded = self.folded.setdefault(rule.rule_id, set())
        folded.update(start for one in refolding.stretches for start in _starts(line, one))
        return found

    def _transitions(
        self,
        rule: JudgedRule,
        chain: Chain,
        folded: tuple[FoldedDays, Mapping[str, ToldAlert]],
        causes: Causes,
    ) -> list[Transition]:
        stretch, told = folded
        if not told and not stretch.episodes:
            return []
        basis = self._basis(rule, told.values(), causes)
        found = transitions(chain, stretch, told.values(), basis)
        return [self._with_reason(rule, one) for one in found]

    def _with_reason(self, rule: JudgedRule, one: Transition) -> Transition:
        if one.reason is not None or one.alert.edge == "raise":
            return one
        reason = self._judgements.why_ended(rule, one.alert.chain, one.judged)
        return structs.replace(one, reason=reason)

    def _line(self, rule: JudgedRule, chain: Chain, named: set[int]) -> DayLine:
        end = self._judgements.end
        starts = self._starts[self._first(rule) :] if rule.since < end else []
        return DayLine(
            borders=[*starts, end] if starts else [],
            states=self._memory.chains.line(chain),
            named=named,
            new_from=self._new_from,
        )

    def _first(self, rule: JudgedRule) -> int:
        """The number of the day that holds the rule's first window, or of the first one."""
        return max(0, bisect_right(self._starts, rule.since) - 1)

    def _basis(self, rule: JudgedRule, told: Iterable[ToldAlert], causes: Causes) -> Basis:
        at = self._memory.tick.at
        newest = version_at(rule.versions, at) or rule.versions[0]
        days: dict[date, Reason] = {}
        for family in rule.families:
            days |= causes.get(family, {})
        windows = {one.window: from_millis(one.window).date() for one in told}
        return Basis(
            at=at,
            late_after=newest.rule.delay + newest.rule.late_after,
            causes={one: days[day] for one, day in windows.items() if day in days},
        )


def first_judged(memory: PartitionMemory) -> int:
    """Start of the first window that is judged at all, ms since 1970 (UTC)."""
    return max(0, start_of_window(memory.tick.at - JUDGED_BACK))


def _starts(line: DayLine, stretch: FoldedDays) -> list[int]:
    return [one for one in line.borders[:-1] if stretch.start <= one < stretch.until]
