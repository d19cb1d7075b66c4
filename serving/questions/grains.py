"""The stretches of time that answers are cut into, daylight saving included.

They are quarter hours, hours, days and weeks of a clock, which is that of a time zone, whose days
begin at midnight, or that of a store. A level is reset as each day of its store begins.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from tally.errors import BadQuery
from tally.time.day_clock import DayClock, LocalDay, local_day, local_day_at
from tally.time.windows import WINDOW, TimeRange, next_window_start, window_start

GRAINS = ("15m", "1h", "1d", "1w")
# Quarter hours that a search for a full local hour tries; no change of clocks moves it by more.
MAX_QUARTERS = 8
_DAYS = {"1d": 1, "1w": 7}


def on_grid(instant: datetime, grain: str, clock: DayClock) -> bool:
    """Whether a slot of the grain begins at the instant."""
    if window_start(instant) != instant:
        return False
    local = instant.astimezone(clock.zone)
    if grain in ("15m", "1h"):
        return grain == "15m" or _is_full_hour(local)
    is_first_day = grain == "1d" or local.weekday() == 0
    return is_first_day and clock.start_of_day(local.date()) == instant


def nearest(instant: datetime, grain: str, clock: DayClock) -> TimeRange:
    """The slot (UTC) that the instant lies in. Raises BadQuery when there is none."""
    for start in _candidates(instant, grain, clock):
        if start <= instant and on_grid(start, grain, clock):
            return TimeRange(start, _next(start, grain, clock))
    raise _no_grid(instant, grain, clock.zone)


def _candidates(instant: datetime, grain: str, clock: DayClock) -> Iterator[datetime]:
    """The possible starts of the slot that the instant lies in, latest first."""
    # No search from quarter hour to quarter hour: Monrovia's midnights were on none until 1972, and
    # one question ran through 69 million of them (seen).
    if grain in ("15m", "1h"):
        return (window_start(instant) - back * WINDOW for back in range(MAX_QUARTERS))
    today = instant.astimezone(clock.zone).date()
    first = today - timedelta(days=today.weekday()) if grain == "1w" else today
    # The slot begins one day or week earlier if the store's day has not begun, the clocks go back
    # over its begin, or the zone skips a day.
    days = (first - timedelta(days=back * _DAYS[grain]) for back in range(4))
    return map(clock.start_of_day, days)


# Cached, for stores of one clock have the same stretches, and so has each next page.
@lru_cache(maxsize=256)
def slots(
    start: datetime,
    end: datetime,
    grain: str,
    clock: DayClock,
) -> tuple[TimeRange, ...]:
    """Every slot of [start, end) in UTC, ascending; both ends are on the grid."""
    found = []
    at = start.astimezone(UTC)
    while at < end:
        following = _next(at, grain, clock)
        found.append(TimeRange(at, following))
        at = following
    return tuple(found)


def _next(start: datetime, grain: str, clock: DayClock) -> datetime:
    if grain == "15m":
        return start + WINDOW
    if grain == "1h":
        # The next full local hour is one hour away unless clocks change by half of one (Lord Howe).
        for more in range(MAX_QUARTERS):
            following = start + timedelta(hours=1) + more * WINDOW
            if _is_full_hour(following.astimezone(clock.zone)):
                return following
        raise _no_grid(start, "1h", clock.zone)
    after = start.astimezone(clock.zone).date() + timedelta(days=_DAYS[grain])
    following = clock.start_of_day(after)
    if following <= start or window_start(following) != following:
        raise _no_grid(following, grain, clock.zone)
    return following


def _no_grid(instant: datetime, grain: str, zone: ZoneInfo) -> BadQuery:
    day = instant.astimezone(zone).date()
    detail = f"tz: about {day} no {grain} of {zone.key} begins on a quarter hour of UTC"
    return BadQuery("tz", f"{detail}; ask with grain=15m or tz=UTC")


def _is_full_hour(local: datetime) -> bool:
    # Seconds count too: the offset of Monrovia was 44 minutes and 30 seconds.
    return local.minute == 0 and local.second == 0


@dataclass(frozen=True)
class Resets:
    """The beginnings of a store's days, independent of the zone that an answer is shown in."""

    clock: DayClock

    def day(self, instant: datetime) -> TimeRange:
        """The windows of the store's day that holds the instant, UTC: 88 to 104 of them."""
        return _day_windows(local_day_at(instant, self.clock))

    def day_before(self, end: datetime) -> TimeRange:
        """The windows of the day that holds the last window before an end; it may end there too."""
        return self.day(end - WINDOW)

    def day_on(self, day: date) -> TimeRange:
        """The windows of the store's day of this date."""
        return _day_windows(local_day(day, self.clock))


def _day_windows(day: LocalDay) -> TimeRange:
    # A window belongs to the day in which it begins: Monrovia's midnights were on no quarter hour.
    return TimeRange(next_window_start(day.start), next_window_start(day.end))
