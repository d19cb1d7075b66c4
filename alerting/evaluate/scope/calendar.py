"""The local days of stores in whole windows, and the windows and spans that a rule looks at.

Rules with a grain are evaluated by totals: per hour, per store day, or since opening.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import date
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from alerting.rules.rule import Rule, RuleGrain
from serving.questions.grains import Resets
from serving.questions.stores import Store
from tally.time.instants import DAY_MILLIS, from_millis, to_millis
from tally.time.opening_hours import MINUTES_A_DAY, ClockSpan, open_spans
from tally.time.windows import ONE_DAY, WINDOW_MILLIS, TimeRange, day_start, days_until, utc_days

# Cache entries: clocks times evaluated days. Stores of one clock share their days.
_CACHE_SIZE = 20_000
# Cache entries: clocks times requested spans of days, each of a year or more.
_SPAN_CACHE_SIZE = 500
# Quarter hours of the longest hour and the longest day that clock changes can make.
_MAX_WINDOWS = {"quarter_hour": 1, "hour": 8, "day": 192, "since_opening": 1}
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

    @property
    def utc_days(self) -> list[date]:
        """The UTC days of the windows, ascending; none of an empty span."""
        return utc_days(*map(from_millis, self)) if self.windows else []


def start_of_window(millis: int) -> int:
    """The start of the window that holds an instant; both in milliseconds since 1970 (UTC)."""
    return millis - millis % WINDOW_MILLIS


@lru_cache(maxsize=_CACHE_SIZE)
def _day(resets: Resets, start: int) -> WindowSpan:
    return WindowSpan(*map(to_millis, resets.day(from_millis(start))))


@lru_cache(maxsize=_SPAN_CACHE_SIZE)
def _day_starts(resets: Resets, first: int, until: int) -> tuple[int, ...]:
    found = []
    while first < until:
        found.append(first)
        first = _day(resets, first).end
    return tuple(found)


class StoreCalendarDays:
    """The local days of one store; a day begins with the first window that starts in it."""

    def __init__(self, store: Store) -> None:
        self.store, self.zone = store, store.zone
        self.resets = Resets(store.clock)

    def day(self, instant: int) -> WindowSpan:
        """The day that holds the window of the instant (milliseconds since 1970, UTC)."""
        # The cache is keyed by the window's start and not by the instant: a day has only about a
        # hundred windows.
        return _day(self.resets, start_of_window(instant))

    def day_starts(self, span: WindowSpan) -> list[int]:
        """The starts of the days that the span touches, ascending; none for an empty span."""
        first = self.day(span.start).start
        return [*_day_starts(self.resets, first, span.end)] if span.windows else []

    def date(self, window: int) -> date:
        """The local date of the store at the start of the window."""
        return from_millis(window).astimezone(self.zone).date()


def utc_span(day: date) -> WindowSpan:
    """The windows of a UTC day."""
    start = to_millis(day_start(day))
    return WindowSpan(start, start + DAY_MILLIS)


def windows_in_schedule(rule: Rule, days: StoreCalendarDays, among: WindowSpan) -> frozenset[int]:
    """The starts of the windows that the rule looks at: those that start inside its `within`."""
    if rule.within == "always":
        return frozenset(among.windows)
    spans_of = _opening_spans if rule.within == "opening_hours" else partial(_clock_spans, rule)
    spans = (span for day in _dates(days, among) for span in spans_of(days, day))
    return _windows_inside(spans, among)


def open_windows(days: StoreCalendarDays, among: WindowSpan) -> frozenset[int]:
    """The starts of the windows in which the store is open according to the stores file."""
    if not among.windows:
        return frozenset()
    dates = (day for day in _dates(days, among) if has_opening_hours(days, day))
    return _windows_inside((span for day in dates for span in _opening_spans(days, day)), among)


def has_opening_hours(days: StoreCalendarDays, day: date) -> bool:
    """Whether the stores file has opening hours for a local day, or says that it is closed."""
    return days.store.entry.valid_on(day).opening_hours is not None


def _dates(days: StoreCalendarDays, among: WindowSpan) -> list[date]:
    # A span that began on the day before may end after midnight.
    first, last = days.date(among.start), days.date(among.end - 1)
    return days_until(first - ONE_DAY, last + ONE_DAY)


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


def _windows_inside(spans: Iterable[TimeRange], among: WindowSpan) -> frozenset[int]:
    ordered = sorted((to_millis(span.start), to_millis(span.end)) for span in spans)
    opens = [start for start, _ in ordered]
    # Clock spans of a rule may be nested: the span that began last need not be open.
    return frozenset(
        window
        for window in among.windows
        if any(window < closes for _, closes in ordered[: bisect_right(opens, window)])
    )


def grain_spans(grain: RuleGrain, days: StoreCalendarDays, day: WindowSpan) -> list[WindowSpan]:
    """The spans of a local day's totals, ascending; `day`: all windows of the day.

    Hours are clock hours. An hour that the start of the day cuts is left out.
    """
    match grain:
        case "hour":
            return _hours(days.zone, day)
        case "day":
            return [day]
        case "since_opening":
            opening = opening_window(days, day)
            return [] if opening is None else [WindowSpan(opening, day.end)]
    return [WindowSpan(window, window + day.windows.step) for window in day.windows]


def ending_windows(grain: RuleGrain, days: StoreCalendarDays, start: int) -> frozenset[int] | None:
    """The windows in which an hour or a day ends, by starts (ms, UTC); None where each counts."""
    if grain not in ("hour", "day"):
        return None
    spans = grain_spans(grain, days, days.day(start))
    return frozenset(span.windows[-1] for span in spans)


def max_run_windows(rule: Rule) -> int:
    """The greatest number of windows that a run of the rule may take."""
    return rule.for_ * _MAX_WINDOWS[rule.grain]


@lru_cache(maxsize=_CACHE_SIZE)
def _hours(zone: ZoneInfo, day: WindowSpan) -> list[WindowSpan]:
    starts = (*day.windows, day.end)
    shown = ((start, from_millis(start).astimezone(zone)) for start in starts)
    borders = [start for start, clock in shown if clock.minute == 0 and clock.second == 0]
    return [WindowSpan(*pair) for pair in pairwise(borders)]
