"""The verdicts on a store's windows at one moment, by the rule versions in force in each window."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import (
    WindowSpan,
    start_of_window,
)
from serving.alerts.evaluator.facts import WindowCells
from serving.alerts.evaluator.grains import ending_windows
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.known import KnownDays, KnownWindows
from serving.alerts.evaluator.lapsing import why_over, with_forced_ends
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import ReadingWanted, ViewsMoment, wanted_of
from serving.alerts.evaluator.settling import SettledDays
from serving.alerts.evaluator.usual import usual_of
from serving.alerts.evaluator.version_metrics import VersionMetrics
from serving.alerts.evaluator.watched import WatchedWindows, only
from tally.alerts.fold import AT_REST, Episode, JudgedStretch, Judgement, fold
from tally.alerts.grain_runs import counted_stretches
from tally.alerts.ids import Chain, subject_text
from tally.alerts.message import Reason
from tally.alerts.rule import RuleVersion
from tally.alerts.verdict import ENDS, LEAVES, ruling_of
from tally.windows import WINDOW_MILLIS

# Reads all of these, and returns when they are in memory.
ReadNow = Callable[[Sequence[ReadingWanted]], None]
_NEVER = 1 << 62
# The store as a whole.
WHOLE_STORE = subject_text("none")


class DayWindow(NamedTuple):
    """One judged window; `cells` is None where no version judges it.

    `counts`: False inside an hour or a day that is judged by its total.
    """

    judgement: Judgement
    version: RuleVersion | None = None
    cells: WindowCells | None = None
    counts: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the window is judged, and generations cover everything that is judged in it."""
        cells = self.cells
        return self.counts and self.judgement.is_complete and (cells is None or cells.is_complete)


class _JudgedPiece(NamedTuple):
    """Windows of a day that one version judges, or that no version judges.

    `ends`: the starts of the windows that end an hour or a day which is judged by its total.
    """

    stretch: JudgedStretch
    version: RuleVersion | None = None
    known: KnownWindows | None = None
    ends: frozenset[int] | None = None


def chain_of(rule: JudgedRule, store_id: str, subject: str = WHOLE_STORE) -> Chain:
    """The chain of the rule for the store as a whole, or for one subject in it."""
    return Chain(rule.rule_id, store_id, subject)


class Judgements:
    """The verdicts of one partition by its current tick; each window is judged once."""

    def __init__(
        self, rules: JudgedRules, memory: PartitionMemory, moment: ViewsMoment, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._read_now = moment, read_now
        self._known = KnownDays(memory, moment)
        self.settled_days = SettledDays(memory)
        self._days: dict[tuple[Chain, int], list[_JudgedPiece]] = {}
        self._spans: dict[tuple[str, int], WindowSpan] = {}
        self._watched = WatchedWindows(rules, moment)
        # The last window that may be judged is the one that holds the tick's instant.
        self.end = start_of_window(memory.tick.at) + WINDOW_MILLIS

    def span(self, store_id: str, start: int) -> WindowSpan:
        """The windows that have begun of the local day that begins at `start`."""
        key = store_id, start
        if key not in self._spans:
            day = self._moment.days(store_id).day(start)
            self._spans[key] = day.cut(self.end)
        return self._spans[key]

    def wanted(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[ReadingWanted]:
        """What has to be read to judge the day, also for the rules that the rule waits for."""
        span = self.span(store_id, start)
        for version, metrics in self._rules.readings(rule, span).values():
            for metric in metrics.all:
                yield from wanted_of(metric, store_id, span)
            if usual := usual_of(version.rule, store_id, start):
                yield usual

    def chains(
        self,
        rule: JudgedRule,
        store_id: str,
        days: Sequence[int],
    ) -> list[Chain]:
        """The chains to judge on the days (given by their starts).

        These are the store as a whole, or each article that has alerts of the rule or calls for
        one now.
        """
        place = rule.rule_id, store_id, min(days, default=_NEVER)
        live = self._memory.chains.subjects(*place)
        if rule.judges_stores and not rule.carries_over and not live:
            return [chain_of(rule, store_id)]
        subjects = {*live}
        if rule.judges_stores:
            subjects.add(WHOLE_STORE)
        # Only a few of hundreds of articles: those that are far from running out have nothing to
        # fold.
        for start in days if rule.carries_over else ():
            subjects.update(self._calling_subjects(rule, store_id, start))
        return [chain_of(rule, store_id, subject) for subject in sorted(subjects)]

    def stretches(self, rule: JudgedRule, chain: Chain, start: int) -> list[JudgedStretch]:
        """The windows of the day that have begun and count, in order, ready to be folded."""
        pieces = self._judge_day(rule, chain, start)
        if len(pieces) == 1 and pieces[0].ends is None:
            return [pieces[0].stretch]
        return counted_stretches((piece.stretch, piece.ends) for piece in pieces)

    def may_raise(self, rule: JudgedRule, chain: Chain, start: int) -> bool:
        """Whether the rule may raise in a window of the day; False means that no stretch does.

        For most rules and days no other check is needed.
        """
        for version, _ in rule.judging(self.span(chain.store_id, start)):
            metrics = rule.metrics(version.version) if version else None
            if version is None or metrics is None:
                continue
            # The stock of single articles is not checked here.
            if metrics.metric.stock is not None:
                return True
            known = self._known_windows(rule, (version, metrics), chain.store_id, start)
            if known.raises(version.rule):
                return True
        return False

    def of_day(
        self, rule: JudgedRule, store_id: str, start: int, subject: str = WHOLE_STORE
    ) -> list[DayWindow]:
        """The verdicts on the day window by window, including windows that do not count."""
        pieces = self._judge_day(rule, chain_of(rule, store_id, subject), start)
        return [
            _day_window(piece, place)
            for piece in pieces
            for place in range(len(piece.stretch.verdicts))
        ]

    def window(
        self, rule: JudgedRule, store_id: str, window: int, subject: str = WHOLE_STORE
    ) -> DayWindow | None:
        """The verdict on the window that begins at `window`; None if it has not begun."""
        day = self._moment.days(store_id).day(window)
        for piece in self._judge_day(rule, chain_of(rule, store_id, subject), day.start):
            place = (window - piece.stretch.start) // WINDOW_MILLIS
            if 0 <= place < len(piece.stretch.verdicts):
                return _day_window(piece, place)
        return None

    def episodes(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[Episode]:
        """The episodes that overlap the day, folded from the stored state at its start."""
        for chain in self.chains(rule, store_id, [start]):
            state = self._memory.chains.line(chain).at(start)
            # A fold at rest stays at rest until a window raises.
            if state != AT_REST or self.may_raise(rule, chain, start):
                yield from fold(self.stretches(rule, chain, start), state).episodes

    def judge_anew(self) -> None:
        """Drop the verdicts that depend on episodes of other rules.

        Called after the states at the starts of those rules' days have changed.
        """
        self._watched.forget_held()
        waiting = [key for key in self._days if key[0].rule_id in self._rules.waiting]
        for day_key in waiting:
            del self._days[day_key]

    def _judge_day(self, rule: JudgedRule, chain: Chain, start: int) -> list[_JudgedPiece]:
        key = chain, start
        if key not in self._days:
            span = self.span(chain.store_id, start)
            judging, forced = rule.judging(span), self._memory.chains.forced_ends(chain)
            found = [self._piece(rule, chain, version, piece) for version, piece in judging]
            for number, piece in enumerate(found if forced else ()):
                verdicts = with_forced_ends(piece.stretch, forced)
                stretch = structs.replace(piece.stretch, verdicts=verdicts)
                found[number] = piece._replace(stretch=stretch)
            self._days[key] = found
        return self._days[key]

    def why_ended(self, rule: JudgedRule, chain: Chain, window: int) -> Reason | None:
        """Why an episode ends with the window regardless of its numbers; None if they end it."""
        if forced := self._memory.chains.forced_ends(chain).get(window):
            return forced.reason
        day = self._moment.days(chain.store_id).day(window)
        judging = rule.judging(day)
        [(version, begin)] = [
            (version, span.start) for version, span in judging if window in span.windows
        ]
        days = self._moment.days(chain.store_id)
        # Checked at the start of the span, as the verdicts are: a store's day may end after
        # midnight.
        return why_over(rule, version, days, (chain.subject, begin))

    def _piece(
        self, rule: JudgedRule, chain: Chain, version: RuleVersion | None, span: WindowSpan
    ) -> _JudgedPiece:
        metrics = rule.metrics(version.version) if version else None
        count = len(span.windows)
        days = self._moment.days(chain.store_id)
        is_over = why_over(rule, version, days, (chain.subject, span.start)) is not None
        if version is None or metrics is None or is_over:
            # No served row calls for an alert here, so the windows count as complete and delay no
            # confirmation.
            verdicts = (ENDS if is_over else LEAVES) * count
            number = version.version if version else 0
            return _JudgedPiece(
                JudgedStretch(span.start, verdicts, number, complete=count), version
            )
        whole = self.span(chain.store_id, span.start)
        known = self._known_windows(rule, (version, metrics), chain.store_id, whole.start)
        # Everything but the stock is the same for the hundreds of articles of a store.
        if (stock := metrics.metric.stock) is not None:
            article = version, chain.store_id, chain.subject
            known = self._known.of_article(known, stock, article)
        first = known.place(span.start)
        verdicts = known.verdicts(version.rule)[first : first + count]
        looked_at = self._watched.looked_at(rule, version, (chain.store_id, whole), self.episodes)
        if looked_at is not None:
            verdicts = only(verdicts, first, looked_at)
        hole = self.settled_days.settled(known).find(0, first, first + count)
        stretch = JudgedStretch(
            span.start,
            verdicts,
            version.version,
            version.rule.for_,
            version.rule.clear_for,
            count if hole < 0 else hole - first,
        )
        if version.rule.grain == "quarter_hour":
            # The usual case: each window counts.
            return _JudgedPiece(stretch, version, known)
        ends = ending_windows(version.rule.grain, days, days.day(span.start))
        return _JudgedPiece(stretch, version, known, ends)

    def _known_windows(
        self, rule: JudgedRule, by: tuple[RuleVersion, VersionMetrics], store_id: str, start: int
    ) -> KnownWindows:
        """The day's windows as a version of the rule knows them; reads them where necessary."""
        version, metrics = by
        known = self._known.find(rule.reading(version.version), store_id, start)
        if known is None:
            self._read_now([*self.wanted(rule, store_id, start)])
            known = self._known.of(version, metrics, store_id, self.span(store_id, start))
        return known

    def _calling_subjects(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[str]:
        """The subjects whose stock in a window of the day fulfils the condition."""
        span = self.span(store_id, start)
        self._read_now([*self.wanted(rule, store_id, start)])
        for version, _ in rule.judging(span):
            metrics = rule.metrics(version.version) if version else None
            condition = version.rule.condition if version else None
            if metrics is not None and metrics.metric.stock is not None and condition is not None:
                yield from self._known.calling(condition, metrics, store_id, span)


def _day_window(piece: _JudgedPiece, place: int) -> DayWindow:
    stretch, version, known, ends = piece
    window = stretch.window(place)
    number = 0 if known is None else known.place(window)
    cells = None if known is None else known.judged_cells(number)
    judgement = Judgement(
        window,
        ruling_of(stretch.verdicts[place]),
        stretch.version,
        stretch.for_,
        stretch.clear_for,
        known is None or bool(known.complete[number]),
    )
    return DayWindow(judgement, version, cells, ends is None or window in ends)
