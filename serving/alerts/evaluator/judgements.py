"""The verdicts on a store's windows at one moment, by the versions that are in force in them."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from serving.alerts.evaluator.calendar import (
    StoreCalendarDays,
    WindowSpan,
    start_of_window,
    watched_windows,
)
from serving.alerts.evaluator.facts import WindowCells
from serving.alerts.evaluator.grains import ending_windows, grain_spans, watched_ends
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules, is_of
from serving.alerts.evaluator.known import KnownDays, KnownWindows
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import ReadingWanted, ViewsMoment, wanted_of
from serving.alerts.evaluator.usual import usual_of
from tally.alerts.fold import AT_REST, Episode, JudgedStretch, Judgement, fold
from tally.alerts.grain_runs import counted_stretches
from tally.alerts.ids import Chain, subject_text
from tally.alerts.rule import Rule, RuleVersion
from tally.alerts.verdict import LEAVES, ruling_of
from tally.windows import WINDOW_MILLIS

# Reads all of these, and comes back when they are there.
ReadNow = Callable[[Sequence[ReadingWanted]], None]
# The store as a whole.
WHOLE_STORE = subject_text("none")


class DayWindow(NamedTuple):
    """A window as it was judged: its cells are None where no version judges it.

    `counts`: not inside of an hour or a day that is judged by its total.
    """

    judgement: Judgement
    version: RuleVersion | None = None
    cells: WindowCells | None = None
    counts: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether something is judged in it, and generations cover all of that."""
        of = self.cells
        return self.counts and self.judgement.is_complete and (of is None or of.is_complete)


class _JudgedPiece(NamedTuple):
    """Windows of a day that one version judges, or none.

    `ends`: starts of those in which an hour or a day ends that is judged by its total.
    """

    stretch: JudgedStretch
    version: RuleVersion | None = None
    known: KnownWindows | None = None
    ends: frozenset[int] | None = None


def chain_of(rule: JudgedRule, store_id: str, subject: str = WHOLE_STORE) -> Chain:
    """The rule at the store as a whole, or at one thing in it."""
    return Chain(rule.rule_id, store_id, subject)


class Judgements:
    """Verdicts of one partition by the tick that it has, each window judged once."""

    def __init__(
        self, rules: JudgedRules, memory: PartitionMemory, moment: ViewsMoment, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._read_now = moment, read_now
        self._known = KnownDays(memory, moment)
        self._days: dict[tuple[Chain, int], list[_JudgedPiece]] = {}
        self._spans: dict[tuple[str, int], WindowSpan] = {}
        self._watched: dict[Hashable, frozenset[int]] = {}
        # The last window that may be looked at begins by the tick's instant.
        self.end = start_of_window(memory.tick.at) + WINDOW_MILLIS

    def span(self, store_id: str, start: int) -> WindowSpan:
        """The windows that have begun of the local day that begins there."""
        key = store_id, start
        if key not in self._spans:
            day = self._moment.days(store_id).day(start)
            self._spans[key] = day.cut(self.end)
        return self._spans[key]

    def wanted(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[ReadingWanted]:
        """What has to be read to judge the day, that of the rules it waits for included."""
        span = self.span(store_id, start)
        for one, _ in rule.judging(span):
            metrics = rule.metrics(one.version) if one else None
            for metric in metrics.all if metrics else ():
                yield from wanted_of(metric, store_id, span)
            if one and metrics and (usual := usual_of(one.rule, store_id, start)):
                yield usual
            for other in self._rules.waits_for(rule, one.rule.unless) if one else ():
                yield from self.wanted(other, store_id, start)

    def chains(
        self,
        rule: JudgedRule,
        store_id: str,
        days: Iterable[int],
    ) -> list[Chain]:
        """What has to be judged on the days (their starts): the store as a whole, or each article
        of which the rule has told something, or that calls for it now."""
        subjects = {*self._memory.subjects(rule.rule_id, store_id)}
        if rule.judges_stores and not rule.carries_over and not subjects:
            return [chain_of(rule, store_id)]
        if rule.judges_stores:
            subjects.add(WHOLE_STORE)
        # Of hundreds of articles a few: who is far from running out has nothing to be folded.
        for start in days if rule.carries_over else ():
            subjects.update(self._calling(rule, store_id, start))
        return [chain_of(rule, store_id, one) for one in sorted(subjects)]

    def stretches(self, rule: JudgedRule, chain: Chain, start: int) -> list[JudgedStretch]:
        """Every window of the day that has begun and counts, in their order, to be folded."""
        pieces = self._judged(rule, chain, start)
        return counted_stretches((one.stretch, one.ends) for one in pieces)

    def of_day(
        self, rule: JudgedRule, store_id: str, start: int, subject: str = WHOLE_STORE
    ) -> list[DayWindow]:
        """The same, window by window."""
        judged = self._judged(rule, chain_of(rule, store_id, subject), start)
        return [
            _day_window(one, place) for one in judged for place in range(len(one.stretch.verdicts))
        ]

    def window(
        self, rule: JudgedRule, store_id: str, window: int, subject: str = WHOLE_STORE
    ) -> DayWindow | None:
        """The window that begins there, as it is now; None of one that has not begun."""
        day = self._moment.days(store_id).day(window)
        for one in self._judged(rule, chain_of(rule, store_id, subject), day.start):
            place = (window - one.stretch.start) // WINDOW_MILLIS
            if 0 <= place < len(one.stretch.verdicts):
                return _day_window(one, place)
        return None

    def episodes(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[Episode]:
        """Episodes that the day has a part in, from what the fold's state was at its start."""
        for chain in self.chains(rule, store_id, [start]):
            state = self._memory.states(chain).get(start, AT_REST)
            yield from fold(self.stretches(rule, chain, start), state).episodes

    def _judged(self, rule: JudgedRule, chain: Chain, start: int) -> list[_JudgedPiece]:
        key = chain, start
        if key not in self._days:
            span = self.span(chain.store_id, start)
            self._days[key] = [
                self._piece(rule, chain, version, piece) for version, piece in rule.judging(span)
            ]
        return self._days[key]

    def _piece(
        self, rule: JudgedRule, chain: Chain, version: RuleVersion | None, span: WindowSpan
    ) -> _JudgedPiece:
        metrics = rule.metrics(version.version) if version else None
        count = len(span.windows)
        if (
            version is None
            or metrics is None
            or _is_of_articles(version) == (chain.subject == WHOLE_STORE)
        ):
            # Whatever is served of it, nothing is called for: it holds up no confirmation.
            return _JudgedPiece(JudgedStretch(span.start, LEAVES * count, complete=count))
        whole = self.span(chain.store_id, span.start)
        reading = rule.reading(version.version)
        known = self._known.find(reading, chain.store_id, whole.start)
        if known is None:
            self._read_now([*self.wanted(rule, chain.store_id, whole.start)])
            known = self._known.of(version, metrics, chain.store_id, whole)
        # All but this is alike for the hundreds of articles of a store.
        if (stock := metrics.metric.stock) is not None:
            of = version, chain.store_id, chain.subject
            known = self._known.of_article(known, stock, of)
        first = known.place(span.start)
        verdicts = known.verdicts(version.rule)[first : first + count]
        if (looked_at := self._looked_at(rule, version, chain.store_id, whole)) is not None:
            verdicts = _only(verdicts, span, looked_at)
        hole = known.complete.find(0, first, first + count)
        stretch = JudgedStretch(
            span.start,
            verdicts,
            version.version,
            version.rule.for_,
            version.rule.clear_for,
            count if hole < 0 else hole - first,
        )
        days = self._moment.days(chain.store_id)
        ends = ending_windows(version.rule.grain, days, days.day(span.start))
        return _JudgedPiece(stretch, version, known, ends)

    def _calling(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[str]:
        """Subjects of which there was so little in a window of the day that the condition holds."""
        span = self.span(store_id, start)
        self._read_now([*self.wanted(rule, store_id, start)])
        for version, _ in rule.judging(span):
            metrics = rule.metrics(version.version) if version else None
            condition = version.rule.condition if version else None
            if metrics is not None and metrics.metric.stock is not None and condition is not None:
                yield from self._known.calling(condition, metrics, store_id, span)

    def _looked_at(
        self, rule: JudgedRule, version: RuleVersion, store_id: str, day: WindowSpan
    ) -> frozenset[int] | None:
        """Starts of the windows that the version is about, and that no other rule holds back; None:
        of all of them."""
        wanted = version.rule
        if wanted.stores == "all" and wanted.within == "always" and not wanted.unless:
            # As most are.
            return None
        days = self._moment.days(store_id)
        # What a clock shows is asked for the few rules that it matters to.
        if wanted.stores != "all" and not _is_about(wanted, days, day):
            return frozenset()
        episodes = [
            episode
            for other in self._rules.waits_for(rule, wanted.unless)
            for episode in self.episodes(other, store_id, day.start)
        ]
        if wanted.within == "always" and not episodes:
            return None
        key = wanted.within, store_id, day
        if key not in self._watched:
            self._watched[key] = watched_windows(wanted, days, day)
        watched = self._watched[key]
        if wanted.grain in ("hour", "day"):
            spans = grain_spans(wanted.grain, days, days.day(day.start))
            return watched_ends(wanted.grain, spans, watched, episodes)
        return frozenset(one for one in watched if not any(of.contains(one) for of in episodes))


def _is_about(rule: Rule, days: StoreCalendarDays, day: WindowSpan) -> bool:
    return is_of(rule, days.store, days.date(day.start))


def _is_of_articles(version: RuleVersion) -> bool:
    return version.rule.subject != "none"


def _only(verdicts: bytes, span: WindowSpan, looked_at: frozenset[int]) -> bytes:
    pairs = zip(span.windows, verdicts, strict=True)
    return bytes(one if window in looked_at else 0 for window, one in pairs)


def _day_window(of: _JudgedPiece, place: int) -> DayWindow:
    stretch, version, known, ends = of
    window = stretch.window(place)
    at = 0 if known is None else known.place(window)
    cells = None if known is None else known.judged_cells(at)
    judgement = Judgement(
        window,
        ruling_of(stretch.verdicts[place]),
        stretch.version,
        stretch.for_,
        stretch.clear_for,
        known is None or bool(known.complete[at]),
    )
    return DayWindow(judgement, version, cells, ends is None or window in ends)
