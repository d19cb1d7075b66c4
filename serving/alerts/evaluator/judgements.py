"""The verdicts on a store's windows at one moment, by the versions that are in force in them."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from serving.alerts.evaluator.calendar import WindowSpan, start_of_window, watched_windows
from serving.alerts.evaluator.facts import WindowCells, facts_of
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules, VersionMetrics, is_of
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import FamilyWindowsOf, ViewsMoment
from tally.alerts.fold import AT_REST, Episode, Judgement, fold
from tally.alerts.ids import Chain
from tally.alerts.rule import RuleVersion
from tally.alerts.verdict import WindowFacts, verdict
from tally.windows import WINDOW_MILLIS

_NEVER = 1 << 62
# Reads all of these, and comes back when they are there.
ReadNow = Callable[[Sequence[FamilyWindowsOf]], None]


class DayWindow(NamedTuple):
    """A window as it was judged: its cells are None where no version judges it."""

    judgement: Judgement
    version: RuleVersion | None = None
    cells: WindowCells | None = None


def chain_of(rule: JudgedRule, store_id: str) -> Chain:
    """The rule at the store as a whole."""
    return Chain(rule.rule_id, store_id, "none")


class Judgements:
    """Verdicts of one partition by the tick that it has, each window judged once."""

    def __init__(
        self, rules: JudgedRules, memory: PartitionMemory, moment: ViewsMoment, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._read_now = moment, read_now
        self._days: dict[tuple[Chain, int], list[DayWindow]] = {}
        # The last window that may be looked at begins by the tick's instant.
        self.end = start_of_window(memory.tick.at) + WINDOW_MILLIS

    def span(self, store_id: str, start: int) -> WindowSpan:
        """The windows that have begun of the local day that begins there."""
        return self._moment.days(store_id).day(start).cut(self.end)

    def wanted(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[FamilyWindowsOf]:
        """What has to be read to judge the day, that of the rules it waits for included."""
        span = self.span(store_id, start)
        judging = (rule.judging(one) for one in span.windows)
        versions = {one.version: one for one in judging if one is not None}
        for one in versions.values():
            metrics = rule.metrics(one.version)
            for family in metrics.families if metrics else ():
                yield FamilyWindowsOf(family, store_id, span)
            for other in self._rules.waits_for(rule, one.rule.unless):
                yield from self.wanted(other, store_id, start)

    def of_day(self, rule: JudgedRule, store_id: str, start: int) -> list[DayWindow]:
        """Every window of the day that has begun, in their order."""
        key = chain_of(rule, store_id), start
        if key not in self._days:
            self._read_now([*self.wanted(rule, store_id, start)])
            self._days[key] = self._judged(rule, store_id, self.span(store_id, start))
        return self._days[key]

    def window(self, rule: JudgedRule, store_id: str, window: int) -> DayWindow | None:
        """The window that begins there, as it is now; None of one that has not begun."""
        day = self._moment.days(store_id).day(window)
        found = self.of_day(rule, store_id, day.start)
        return next((one for one in found if one.judgement.window == window), None)

    def episodes(self, rule: JudgedRule, store_id: str, start: int) -> Sequence[Episode]:
        """Episodes that the day has a part in, from what the fold's state was at its start."""
        state = self._memory.states(chain_of(rule, store_id)).get(start, AT_REST)
        judged = self.of_day(rule, store_id, start)
        return fold((one.judgement for one in judged), state).episodes

    def _judged(self, rule: JudgedRule, store_id: str, span: WindowSpan) -> list[DayWindow]:
        by_window = {one: rule.judging(one) for one in span.windows}
        numbers = {one.version for one in by_window.values() if one is not None}
        judged = {number: self._by_version(rule, number, store_id, span) for number in numbers}
        return [
            # Whatever is served of it, nothing is called for: it holds up no confirmation.
            DayWindow(Judgement(window, 0, is_complete=True))
            if one is None
            else judged[one.version][window]
            for window, one in by_window.items()
        ]

    def _by_version(
        self, rule: JudgedRule, number: int, store_id: str, span: WindowSpan
    ) -> dict[int, DayWindow]:
        """The windows of a day as one version judges them, by their starts."""
        version, metrics = rule.version(number), rule.metrics(number)
        assert metrics is not None
        looked_at = self._looked_at(rule, version, store_id, span)
        begun = self._begun(metrics, store_id)
        read = [self._moment.cells(one, store_id, span) for one in metrics.all]
        found = {}
        for first, *rest in zip(*read, strict=True):
            cells = WindowCells(first, (*rest,))
            # What nobody has sent before the first record is no silence.
            is_before = cells.start < begun and not (first.cell.events or first.cell.parts)
            is_exempt = is_before or cells.start not in looked_at
            facts = facts_of(version.rule, metrics, cells, self._memory.tick, is_exempt)
            found[cells.start] = DayWindow(_judgement(version, cells, facts), version, cells)
        return found

    def _looked_at(
        self, rule: JudgedRule, version: RuleVersion, store_id: str, span: WindowSpan
    ) -> set[int]:
        """Starts of the windows that the version is about, and that no other rule holds back."""
        days = self._moment.days(store_id)
        if not is_of(version.rule, days.store, days.date(span.start)):
            return set()
        found = {*watched_windows(version.rule, days, span)}
        for other in self._rules.waits_for(rule, version.rule.unless):
            for episode in self.episodes(other, store_id, span.start):
                found = {one for one in found if not episode.contains(one)}
        return found

    def _begun(self, metrics: VersionMetrics, store_id: str) -> int:
        """Start of the first window in which the store has begun to send, in all families."""
        begun = self._memory.silent_from
        # Who has never sent of a family is not silent in it.
        return max(begun.get((one, store_id), _NEVER) for one in metrics.families)


def _judgement(version: RuleVersion, cells: WindowCells, facts: WindowFacts) -> Judgement:
    rule = version.rule
    return Judgement(
        window=cells.start,
        verdict=verdict(rule, facts),
        version=version.version,
        for_=rule.for_,
        clear_for=rule.clear_for,
        is_complete=cells.is_complete,
    )
