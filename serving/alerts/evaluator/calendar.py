"""The local days of stores as windows are cut into them, and when a rule looks at a window."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache, partial
from typing import NamedTuple

from serving.query.resets import Resets
from serving.query.store_calendar import holidays_of
from serving.query.stores import Store
from tally.alerts.clock_hours import span_of, weekdays_of
from tally.alerts.rule import Rule
from tally.calendar.days import OpenSpan, open_spans
from tally.calendar.opening_hours import MINUTES_A_DAY, ClockSpan
from tally.instants import from_millis
from tally.windows import WINDOW_MILLIS

_ONE_DAY = timedelta(days=1)
# Clocks times days that are judged: stores of one clock have the same days.
_MOST_KNOWN = 20_000
# Clocks times spans of days, each of a year and more, that are asked for.
_MOST_SPANS = 500
_ALL_DAY = (ClockSpan(0, MINUTES_A_DAY),)


class WindowSpan(NamedTuple):
    """Windows by their starts, from inclusive, to exclusive; milliseconds since 1970 (UTC)."""

    start: int
    end: int

    @property
    def windows(self) -> range:
        """The starts of its windows, ascending."""
        return range(self.start, self.end, WINDOW_MILLIS)

    def cut(self, end: int) -> "WindowSpan":
        """What of it lies before the end."""
        return WindowSpan(self.start, min(self.end, end))

    def within(self, other: "WindowSpan") -> "WindowSpan":
        """What both have; an empty one where that is nothing."""
        start = max(self.start, other.start)
        return WindowSpan(start, max(start, min(self.end, other.end)))


def millis_of(instant: datetime) -> int:
    """The instant in milliseconds since 1970 (UTC)."""
    return round(instant.timestamp() * 1000)


def start_of_window(millis: int) -> int:
    """Start of the window that holds an instant; both in milliseconds since 1970 (UTC)."""
    return millis - millis % WINDOW_MILLIS


@lru_cache(maxsize=_MOST_KNOWN)
def _day(resets: Resets, start: int) -> WindowSpan:
    return WindowSpan(*map(millis_of, resets.day(from_millis(start))))


@lru_cache(maxsize=_MOST_KNOWN)
def _after(resets: Resets, start: int) -> int:
    """Start of the day after the one that begins there."""
    return _day(resets, start).end


@lru_cache(maxsize=_MOST_SPANS)
def _starts(resets: Resets, first: int, until: int) -> tuple[int, ...]:
    """Starts of the days from the one that begins at `first` up to an instant, ascending."""
    found = []
    while first < until:
        found.append(first)
        first = _after(resets, first)
    return tuple(found)


class StoreCalendarDays:
    """The local days of one store, each beginning with the first window that starts in it."""

    def __init__(self, store: Store) -> None:
        self.store, self.zone = store, store.zone
        self.resets = Resets(store.clock)

    def day(self, instant: int) -> WindowSpan:
        """The day that holds the window of the instant (milliseconds since 1970, UTC)."""
        start = start_of_window(instant)
        # Known by its own start: a day has a hundred windows.
        return _day(self.resets, start)

    def starts(self, since: int, until: int) -> list[int]:
        """Starts of the days that hold windows of [since, until), ascending."""
        return [*_starts(self.resets, self.day(since).start, until)]

    def days_of(self, span: WindowSpan) -> list[int]:
        """Starts of the days that the span touches, ascending; none of an empty one."""
        return self.starts(*span) if span.start < span.end else []

    def date(self, window: int) -> date:
        """The date that the store's clock shows as the window begins."""
        return from_millis(window).astimezone(self.zone).date()


def days_in_utc(span: WindowSpan) -> list[date]:
    """The UTC days that the span touches, ascending."""
    first = from_millis(span.start).date()
    last = from_millis(span.end - 1).date()
    return [first + more * _ONE_DAY for more in range((last - first).days + 1)]


def utc_span(day: date) -> WindowSpan:
    """The windows of a UTC day."""
    start = datetime.combine(day, time(), UTC)
    return WindowSpan(millis_of(start), millis_of(start + _ONE_DAY))


def watched_windows(rule: Rule, days: StoreCalendarDays, among: WindowSpan) -> frozenset[int]:
    """Starts of the windows that the rule looks at: those that start inside of its `within`."""
    if rule.within == "always":
        return frozenset(among.windows)
    dates = _dates(days, among)
    spans_of = _opening if rule.within == "opening_hours" else partial(_clock, rule)
    return frozenset(_inside([span for day in dates for span in spans_of(days, day)], among))


def open_windows(days: StoreCalendarDays, among: WindowSpan) -> frozenset[int]:
    """Starts of the windows in which the stores file says that the store is open."""
    if not among.windows:
        return frozenset()
    dates = [day for day in _dates(days, among) if tells_hours(days, day)]
    return frozenset(_inside([span for day in dates for span in _opening(days, day)], among))


def tells_hours(days: StoreCalendarDays, day: date) -> bool:
    """Whether the stores file says when the store is open on a local day, or that it is not."""
    return days.store.entry.on(day).opening_hours is not None


def _dates(days: StoreCalendarDays, among: WindowSpan) -> list[date]:
    # A span of the day before may end after midnight.
    first, last = days.date(among.start) - _ONE_DAY, days.date(among.end - 1)
    return [first + more * _ONE_DAY for more in range((last - first).days + 1)]


def opening_window(days: StoreCalendarDays, day: WindowSpan) -> int | None:
    """Start of the window in which the store opens on a local day; None where it stays closed.

    Where nobody has told its hours it is open from the day's first window on.
    """
    date = days.store.clock.day(from_millis(day.start))
    opens = [millis_of(one.opens) for one in _opening(days, date)]
    if not tells_hours(days, date):
        return day.start
    return max(day.start, start_of_window(min(opens))) if opens else None


def _opening(days: StoreCalendarDays, day: date) -> Iterator[OpenSpan]:
    hours = days.store.entry.on(day).opening_hours
    # Where nobody has told them it is open, as it is for what its sensors should have seen.
    if hours is None:
        return open_spans(day, _ALL_DAY, days.zone)
    is_holiday = bool(tuple(holidays_of(days.store)(day)))
    return open_spans(day, hours.spans(day, is_holiday=is_holiday), days.zone)


def _clock(rule: Rule, days: StoreCalendarDays, day: date) -> Iterator[OpenSpan]:
    assert isinstance(rule.within, tuple)
    told = (one for one in rule.within if day.weekday() in weekdays_of(one))
    return open_spans(day, tuple(map(span_of, told)), days.zone)


def _inside(spans: Sequence[OpenSpan], among: WindowSpan) -> Iterator[int]:
    ordered = sorted((millis_of(one.opens), millis_of(one.closes)) for one in spans)
    opens = [one for one, _ in ordered]
    for window in among.windows:
        # Spans of a rule's clock may lie in one another: the one that began last need not be open.
        begun = ordered[: bisect_right(opens, window)]
        if any(window < closes for _, closes in begun):
            yield window
