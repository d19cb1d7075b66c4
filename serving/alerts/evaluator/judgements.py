"""The verdicts on a store's windows at one moment, by the versions that are in force in them."""

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

# Reads all of these, and comes back when they are there.
ReadNow = Callable[[Sequence[ReadingWanted]], None]
_NEVER = 1 << 62
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
        self.settled_days = SettledDays(memory)
        self._days: dict[tuple[Chain, int], list[_JudgedPiece]] = {}
        self._spans: dict[tuple[str, int], WindowSpan] = {}
        self._watched = WatchedWindows(rules, moment)
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
        """What has to be judged on the days (their starts): the store as a whole, or each article
        of which the rule has told something, or that calls for it now."""
        of = rule.rule_id, store_id, min(days, default=_NEVER)
        live = self._memory.chains.subjects(*of)
        if rule.judges_stores and not rule.carries_over and not live:
            return [chain_of(rule, store_id)]
        subjects = {*live}
        if rule.judges_stores:
            subjects.add(WHOLE_STORE)
        # Of hundreds of articles a few: who is far from running out has nothing to be folded.
        for start in days if rule.carries_over else ():
            subjects.update(self._calling(rule, store_id, start))
        return [chain_of(rule, store_id, one) for one in sorted(subjects)]

    def stretches(self, rule: JudgedRule, chain: Chain, start: int) -> list[JudgedStretch]:
        """Every window of the day that has begun and counts, in their order, to be folded."""
        pieces = self._judged(rule, chain, start)
        if len(pieces) == 1 and pieces[0].ends is None:
            return [pieces[0].stretch]
        return counted_stretches((one.stretch, one.ends) for one in pieces)

    def may_raise(self, rule: JudgedRule, chain: Chain, start: int) -> bool:
        """Whether the rule may raise in a window of the day; False: no stretch of it does.

        Of most rules and days this is all that has to be asked.
        """
        for version, _ in rule.judging(self.span(chain.store_id, start)):
            metrics = rule.metrics(version.version) if version else None
            if version is None or metrics is None:
                continue
            # What there is of one article is not looked at here.
            if metrics.metric.stock is not None:
                return True
            known = self._known_windows(rule, (version, metrics), chain.store_id, start)
            if known.raises(version.rule):
                return True
        return False

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
            state = self._memory.chains.line(chain).at(start)
            # At rest a fold stays there until something raises.
            if state != AT_REST or self.may_raise(rule, chain, start):
                yield from fold(self.stretches(rule, chain, start), state).episodes

    def judge_anew(self) -> None:
        """Drops what the episodes of other rules have made of verdicts: other states were put at
        the starts of their days."""
        self._watched.forget_held()
        waiting = [one for one in self._days if one[0].rule_id in self._rules.waiting]
        for one in waiting:
            del self._days[one]

    def _judged(self, rule: JudgedRule, chain: Chain, start: int) -> list[_JudgedPiece]:
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
        """Why an episode ends with the window whatever its numbers are; None: by its numbers."""
        if forced := self._memory.chains.forced_ends(chain).get(window):
            return forced.reason
        day = self._moment.days(chain.store_id).day(window)
        judging = rule.judging(day)
        [(version, begin)] = [
            (version, span.start) for version, span in judging if window in span.windows
        ]
        days = self._moment.days(chain.store_id)
        # As its verdicts are, by the begin of the span: a store's day may end after midnight.
        return why_over(rule, version, days, (chain.subject, begin))

    def _piece(
        self, rule: JudgedRule, chain: Chain, version: RuleVersion | None, span: WindowSpan
    ) -> _JudgedPiece:
        metrics = rule.metrics(version.version) if version else None
        count = len(span.windows)
        days = self._moment.days(chain.store_id)
        is_over = why_over(rule, version, days, (chain.subject, span.start)) is not None
        if version is None or metrics is None or is_over:
            # Whatever is served of it, nothing is called for: it holds up no confirmation.
            verdicts = (ENDS if is_over else LEAVES) * count
            number = version.version if version else 0
            return _JudgedPiece(
                JudgedStretch(span.start, verdicts, number, complete=count), version
            )
        whole = self.span(chain.store_id, span.start)
        known = self._known_windows(rule, (version, metrics), chain.store_id, whole.start)
        # All but this is alike for the hundreds of articles of a store.
        if (stock := metrics.metric.stock) is not None:
            of = version, chain.store_id, chain.subject
            known = self._known.of_article(known, stock, of)
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
            # As most are: each window counts.
            return _JudgedPiece(stretch, version, known)
        ends = ending_windows(version.rule.grain, days, days.day(span.start))
        return _JudgedPiece(stretch, version, known, ends)

    def _known_windows(
        self, rule: JudgedRule, by: tuple[RuleVersion, VersionMetrics], store_id: str, start: int
    ) -> KnownWindows:
        """What is known of the day's windows to a version of the rule."""
        version, metrics = by
        known = self._known.find(rule.reading(version.version), store_id, start)
        if known is None:
            self._read_now([*self.wanted(rule, store_id, start)])
            known = self._known.of(version, metrics, store_id, self.span(store_id, start))
        return known

    def _calling(self, rule: JudgedRule, store_id: str, start: int) -> Iterable[str]:
        """Subjects of which there was so little in a window of the day that the condition holds."""
        span = self.span(store_id, start)
        self._read_now([*self.wanted(rule, store_id, start)])
        for version, _ in rule.judging(span):
            metrics = rule.metrics(version.version) if version else None
            condition = version.rule.condition if version else None
            if metrics is not None and metrics.metric.stock is not None and condition is not None:
                yield from self._known.calling(condition, metrics, store_id, span)


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
