"""One store: a rule's verdicts on its days, folded from where nothing before them counts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import WindowSpan, utc_span
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.judgements import DayWindow, Judgements, ReadNow, chain_of
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.messages import told_threshold, told_value
from serving.alerts.evaluator.moment import FamilyWindowsOf, ViewsMoment
from serving.alerts.evaluator.partition import DAY_MILLIS
from tally.alerts.days import DayLine, FoldedDays, refold
from tally.alerts.fold import AT_REST, Episode, Judgement
from tally.alerts.simulated import FoldedSpan, rests_for_sure
from tally.windows import WINDOW_MILLIS

# Days before the span that are looked at for where the rule was at rest, twice as many each time.
LEADS = tuple(1 << power for power in range(9))


class StoreReading(NamedTuple):
    """What is read by, and what reads more of it and comes back when it is there.

    `first_days`: by family the UTC day of the store's first event.
    """

    moment: ViewsMoment
    read_now: ReadNow
    first_days: Mapping[str, date]


class SimulatedEpisode(NamedTuple):
    """An episode, windows by their starts in milliseconds since 1970 (UTC).

    `value`: of the window that raised it, in the metric's unit; `threshold`: what it was compared
    with. `is_complete`: all windows from its day's begin up to its end are served complete.
    """

    store_id: str
    episode: Episode
    value: int | float | None
    threshold: float | None
    is_complete: bool


class IncompleteDay(NamedTuple):
    """A local day of which windows are not served complete: how many of those asked for.

    These are of [start, end), in milliseconds since 1970 (UTC).
    """

    store_id: str
    day: date
    start: int
    end: int
    windows: int
    of: int


class JudgedValue(NamedTuple):
    """The number of a window as the rule was judged by it, in the metric's unit.

    `window`: its start, ms since 1970 (UTC). None: not served complete, silent, or withheld.
    """

    window: int
    value: int | float | None


class SimulatedStore(NamedTuple):
    """A store's episodes of the span that was asked for, and what of it nobody knows for sure.

    `since`: from which window on it was folded, ms since 1970 (UTC). `is_sure`: nothing before that
    could have made it otherwise. `values`: of each window of the span, where they were asked for.
    """

    store_id: str
    span: FoldedSpan
    episodes: tuple[SimulatedEpisode, ...]
    incomplete: tuple[IncompleteDay, ...]
    since: int
    is_sure: bool
    values: tuple[JudgedValue, ...] = ()


class StoreSimulation:
    """Judges one store by what is known of its partition; nothing of it is told."""

    def __init__(
        self, store_id: str, rules: JudgedRules, memory: PartitionMemory, reading: StoreReading
    ) -> None:
        self._store_id, self._rules, self._memory = store_id, rules, memory
        self._days, self._first_days = reading.moment.days(store_id), reading.first_days
        self._judgements = Judgements(rules, memory, reading.moment, reading.read_now)

    def wanted(self, rule: JudgedRule, span: WindowSpan) -> list[FamilyWindowsOf]:
        """What has to be read of the days of the span, and of the day before it."""
        around = WindowSpan(max(0, span.start - DAY_MILLIS), self._end(rule, span))
        return [
            one
            for start in self._starts(around)
            for one in self._judgements.wanted(rule, self._store_id, start)
        ]

    def simulated(self, rule: JudgedRule, span: WindowSpan, most_lead: int) -> SimulatedStore:
        """The rule on the span. Raises what reading raises."""
        end = self._end(rule, span)
        since, is_sure = self._begin(rule, WindowSpan(span.start, end), most_lead)
        folded = self._folded(rule, WindowSpan(since, end))
        found = FoldedSpan(span.start, span.end, folded.episodes, folded.settled)
        # Of the days around too: an episode may have begun in them.
        complete = frozenset(
            one.judgement.window
            for one in self._judged(rule, WindowSpan(since, end))
            if one.judgement.is_complete
        )
        return SimulatedStore(
            self._store_id,
            found,
            tuple(self._told(rule, one, span, complete) for one in found.asked),
            tuple(self._incomplete(span, complete)),
            since,
            is_sure,
        )

    def values(self, rule: JudgedRule, span: WindowSpan) -> tuple[JudgedValue, ...]:
        """The numbers of the windows of the span that have begun."""
        return tuple(
            JudgedValue(
                one.judgement.window,
                told_value(rule, one) if one.judgement.is_complete else None,
            )
            for one in self._judged(rule, span)
            if one.judgement.window in span.windows
        )

    def _end(self, rule: JudgedRule, span: WindowSpan) -> int:
        """End of the days that decide about the span: a run that has begun in it may go on."""
        longest = max(one.rule.for_ for one in rule.versions)
        last = self._days.day(span.end + (longest - 2) * WINDOW_MILLIS)
        return min(last.end, self._judgements.end)

    def _begin(self, rule: JudgedRule, span: WindowSpan, most_lead: int) -> tuple[int, bool]:
        """Start of the day from which to fold, and whether what was before makes no difference.

        The rules that it waits for are folded up to the end of the span too, each from its own.
        """
        rest = max(rule.since, self._first_event(rule))
        for lead in (one for one in LEADS if one <= most_lead):
            earliest = max(0, span.start - lead * DAY_MILLIS, min(rest, span.start))
            since = self._days.day(earliest).start
            for other in self._rules.waits_for(rule, rule.unless):
                begin, _ = self._begin(other, WindowSpan(since, span.end), most_lead)
                self._folded(other, WindowSpan(begin, span.end))
            # Before its first version nothing was judged, and before its first event no store is
            # silent: there it was at rest.
            if since <= rest:
                return since, True
            first = self._days.day(span.start).start
            before = self._judged(rule, WindowSpan(since, first))
            if rests_for_sure(one.judgement for one in before):
                return since, True
        return since, False

    def _first_event(self, rule: JudgedRule) -> int:
        """Before it no window of the store can raise, ms since 1970 (UTC)."""
        found = []
        for family in rule.families:
            if day := self._first_days.get(family):
                found.append(utc_span(day).start)
            silent = self._memory.silent_from.get((family, self._store_id))
            # The evaluator may have seen it first, and events of earlier days after that.
            found += [] if silent is None else [silent]
        return min(found, default=0)

    def _folded(self, rule: JudgedRule, span: WindowSpan) -> FoldedDays:
        """All days of the span in one go; the memory has the state at the start of each."""
        own = chain_of(rule, self._store_id)
        starts = self._starts(span)
        line = DayLine([*starts, span.end], {}, starts, 0)
        found = refold(line, (), partial(self._judgements_of, rule))
        for start in starts:
            self._memory.begin_day(own, start, found.states.get(start, AT_REST))
        # All of them are named, so there is one stretch; none where no window has begun.
        nothing = FoldedDays(span.start, span.start, AT_REST, (), frozenset())
        return found.stretches[0] if found.stretches else nothing

    def _judgements_of(self, rule: JudgedRule, start: int) -> Sequence[Judgement]:
        judged = self._judgements.of_day(rule, self._store_id, start)
        return [one.judgement for one in judged]

    def _judged(self, rule: JudgedRule, span: WindowSpan) -> Iterator[DayWindow]:
        for start in self._starts(span):
            yield from self._judgements.of_day(rule, self._store_id, start)

    def _starts(self, span: WindowSpan) -> list[int]:
        return self._days.days_of(span.cut(self._judgements.end))

    def _told(
        self, rule: JudgedRule, episode: Episode, span: WindowSpan, complete: Collection[int]
    ) -> SimulatedEpisode:
        window = self._judgements.window(rule, self._store_id, episode.raised)
        # What has ended behind the span is open at its end, however much of that was looked at.
        ended = None if episode.ended is None or episode.ended >= span.end else episode.ended
        begin = self._days.day(episode.start).start
        until = min(span.end if ended is None else ended + WINDOW_MILLIS, span.end)
        # The one in force in that window, as in the message of an alert.
        by = window.version.rule if window and window.version else rule.versions[-1].rule
        return SimulatedEpisode(
            self._store_id,
            structs.replace(episode, ended=ended),
            told_value(rule, window),
            told_threshold(by),
            all(one in complete for one in WindowSpan(begin, until).windows),
        )

    def _incomplete(self, span: WindowSpan, complete: Collection[int]) -> Iterator[IncompleteDay]:
        # Of days that have not begun too: of them it is told as little.
        for start in self._days.days_of(span):
            asked = self._days.day(start).within(span)
            if missing := sum(one not in complete for one in asked.windows):
                day = self._days.date(asked.start)
                counts = missing, len(asked.windows)
                yield IncompleteDay(self._store_id, day, *asked, *counts)
