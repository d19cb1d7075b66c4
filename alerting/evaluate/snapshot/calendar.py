"""The local days of stores in whole windows, and the windows that a rule looks at."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from typing import NamedTuple

from alerting.rules.rule import Rule
from serving.questions.resets import Resets
from serving.questions.stores import Store
from tally.time.instants import from_millis, to_millis
from tally.time.local_days import open_spans
from tally.time.opening_hours import MINUTES_A_DAY, ClockSpan
from tally.time.windows import WINDOW_MILLIS, TimeRange

_ONE_DAY = timedelta(days=1)
# Cache entries: clocks times evaluated days. Stores of one clock share their days.
_CACHE_SIZE = 20_000
# Cache entries: clocks times requested spans of days, each of a year or more.
_SPAN_CACHE_SIZE = 500
_ALL_DAY = (ClockSpan(0, MINUTES_A_DAY),)


class WindowSpan(NamedTuple):
    """A range of windows by their starts; milliseconds since 1970 (UTC), `end` is exclusive."""

    start: int
    end: int

    @property
    def windows(self) -> range:
        """The starts of the windows, ascending."""
        return range(self.start, self.end, WINDOW_MILLIS)

    def cut_at(self, end: int) -> "WindowSpan":
        """The part of the span that lies before `end`."""
        return WindowSpan(self.start, min(self.end, end))

    def intersect(self, other: "WindowSpan") -> "WindowSpan":
        """The intersection of both spans; an empty span where they do not overlap."""
        start = max(self.start, other.start)
        return WindowSpan(start, max(start, min(self.end, other.end)))


def start_of_window(millis: int) -> int:
    """The start of the window that holds an instant; both in milliseconds since 1970 (UTC)."""
    return millis - millis % WINDOW_MILLIS


@lru_cache(maxsize=_CACHE_SIZE)
def _day(resets: Resets, start: int) -> WindowSpan:
    return WindowSpan(*map(to_millis, resets.day(from_millis(start))))


@lru_cache(maxsize=_CACHE_SIZE)
def _next_day_start(resets: Resets, start: int) -> int:
    """The start of the day after the day that begins at `start`."""
    return _day(resets, start).end


@lru_cache(maxsize=_SPAN_CACHE_SIZE)
def _day_starts(resets: Resets, first: int, until: int) -> tuple[int, ...]:
    """The starts of the days in [first, until), ascending; `first` is the start of a day."""
    found = []
    while first < until:
        found.append(first)
        first = _next_day_start(resets, first)
    return tuple(found)


class StoreCalendarDays:
    """The local days of one store; a day begins with the first window that starts in it."""

    def __init__(self, store: Store) -> None:
        self.store, self.zone = store, store.zone
        self.resets = Resets(store.clock)

    def day(self, instant: int) -> WindowSpan:
        """The day that holds the window of the instant (milliseconds since 1970, UTC)."""
        start = start_of_window(instant)
        # The cache is keyed by the window's start and not by the instant: a day has only about a
        # hundred windows.
        return _day(self.resets, start)

    def starts(self, since: int, until: int) -> list[int]:
        """The starts of the days that hold windows of [since, until), ascending."""
        return [*_day_starts(self.resets, self.day(since).start, until)]

    def day_starts(self, span: WindowSpan) -> list[int]:
        """The starts of the days that the span touches, ascending; none for an empty span."""
        return self.starts(*span) if span.start < span.end else []

    def date(self, window: int) -> date:
        """The local date of the store at the start of the window."""
        return from_millis(window).astimezone(self.zone).date()


def days_in_utc(span: WindowSpan) -> list[date]:
    """The UTC days that the span touches, ascending."""
    first = from_millis(span.start).date()
    last = from_millis(span.end - 1).date()
    return [first + more * _ONE_DAY for more in range((last - first).days + 1)]


def utc_span(day: date) -> WindowSpan:
    """The windows of a UTC day."""
    start = datetime.combine(day, time(), UTC)
    return WindowSpan(to_millis(start), to_millis(start + _ONE_DAY))


def windows_in_schedule(rule: Rule, days: StoreCalendarDays, among: WindowSpan) -> frozenset[int]:
    """The starts of the windows that the rule looks at: those that start inside its `within`."""
    if rule.within == "always":
        return frozenset(among.windows)
    dates = _dates(days, among)
    spans_of = _opening_spans if rule.within == "opening_hours" else partial(_clock_spans, rule)
    return frozenset(
        _windows_inside([span for day in dates for span in spans_of(days, day)], among)
    )


def open_windows(days: StoreCalendarDays, among: WindowSpan) -> frozenset[int]:
    """The starts of the windows in which the store is open according to the stores file."""
    if not among.windows:
        return frozenset()
    dates = [day for day in _dates(days, among) if has_opening_hours(days, day)]
    return frozenset(
        _windows_inside([span for day in dates for span in _opening_spans(days, day)], among)
    )


def has_opening_hours(days: StoreCalendarDays, day: date) -> bool:
    """Whether the stores file has opening hours for a local day, or says that it is closed."""
    return days.store.entry.valid_on(day).opening_hours is not None


def _dates(days: StoreCalendarDays, among: WindowSpan) -> list[date]:
    # A span that began on the day before may end after midnight.
    first, last = days.date(among.start) - _ONE_DAY, days.date(among.end - 1)
    return [first + more * _ONE_DAY for more in range((last - first).days + 1)]


def opening_window(days: StoreCalendarDays, day: WindowSpan) -> int | None:
    """The start of the window in which the store opens on a local day; None where it stays closed.

    A store without opening hours in the stores file opens with the day's first window.
    """
    date = days.store.clock.day(from_millis(day.start))
    opens = [to_millis(span.start) for span in _opening_spans(days, date)]
    if not has_opening_hours(days, date):
        return day.start
    return max(day.start, start_of_window(min(opens))) if opens else None


def _opening_spans(days: StoreCalendarDays, day: date) -> Iterator[TimeRange]:
    spans = days.store.entry.open_spans(day, days.zone)
    # A store without opening hours counts as open, as it does in the coverage of its sensors.
    return open_spans(day, _ALL_DAY, days.zone) if spans is None else iter(spans)


def _clock_spans(rule: Rule, days: StoreCalendarDays, day: date) -> Iterator[TimeRange]:
    assert isinstance(rule.within, tuple)
    within = (hours.span for hours in rule.within if day.weekday() in hours.weekdays)
    return open_spans(day, tuple(within), days.zone)


def _windows_inside(spans: Sequence[TimeRange], among: WindowSpan) -> Iterator[int]:
    ordered = sorted((to_millis(span.start), to_millis(span.end)) for span in spans)
    opens = [start for start, _ in ordered]
    for window in among.windows:
        # Clock spans of a rule may be nested: the span that began last need not be open.
        begun = ordered[: bisect_right(opens, window)]
        if any(window < closes for _, closes in begun):
            yield window
