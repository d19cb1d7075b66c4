"""The stretches of time that answers are cut into, daylight saving included.

They are quarter hours, hours, days and weeks of a clock, which is that of a time zone, whose days
begin at midnight, or that of a store.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from tally.errors import BadQuery
from tally.time.day_clock import DayClock
from tally.time.windows import WINDOW, TimeRange, window_start

GRAINS = ("15m", "1h", "1d", "1w")
HOUR = timedelta(hours=1)
# Quarter hours that a search for a full local hour tries; no change of clocks moves it by more.
MAX_QUARTERS = 8
_DAYS = {"1d": 1, "1w": 7}


def on_grid(instant: datetime, grain: str, clock: DayClock) -> bool:
    """Whether a slot of the grain begins at the instant."""
    if window_start(instant) != instant:
        return False
    local = instant.astimezone(clock.zone)
    return grain == "15m" or (
        _is_full_hour(local)
        if grain == "1h"
        else clock.start_of_day(local.date()) == instant and _first_day(local, grain)
    )


def nearest(instant: datetime, grain: str, clock: DayClock) -> TimeRange:
    """The slot that the instant lies in, UTC: start and end are the nearest values on the grid.

    Raises BadQuery when there is none.
    """
    start = next(
        (
            candidate
            for candidate in _candidates(instant, grain, clock)
            if candidate <= instant and on_grid(candidate, grain, clock)
        ),
        None,
    )
    if start is None:
        raise _no_grid(instant, grain, clock.zone)
    return TimeRange(start, _next(start, grain, clock))


def _candidates(instant: datetime, grain: str, clock: DayClock) -> Iterator[datetime]:
    """The possible starts of the slot that the instant lies in, latest first.

    They are few in any zone.
    """
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
    """The end of the slot that begins at `start`.

    Raises BadQuery where that is on no quarter hour.
    """
    if grain == "15m":
        return start + WINDOW
    if grain == "1h":
        return _next_hour(start, clock.zone)
    after = start.astimezone(clock.zone).date() + timedelta(days=_DAYS[grain])
    following = clock.start_of_day(after)
    if following <= start or window_start(following) != following:
        raise _no_grid(following, grain, clock.zone)
    return following


def _next_hour(start: datetime, zone: ZoneInfo) -> datetime:
    # The next full local hour is one hour away except where clocks change by half an hour (Lord
    # Howe).
    for more in range(MAX_QUARTERS):
        following = start + HOUR + more * WINDOW
        if _is_full_hour(following.astimezone(zone)):
            return following
    raise _no_grid(start, "1h", zone)


def _no_grid(instant: datetime, grain: str, zone: ZoneInfo) -> BadQuery:
    day = instant.astimezone(zone).date()
    return BadQuery(
        "tz",
        f"tz: about {day} no {grain} of {zone.key} begins on a quarter hour of UTC;"
        " ask with grain=15m or tz=UTC",
    )


def _is_full_hour(local: datetime) -> bool:
    # Seconds count too: the offset of Monrovia was 44 minutes and 30 seconds.
    return local.minute == 0 and local.second == 0


def _first_day(local: datetime, grain: str) -> bool:
    return grain == "1d" or local.weekday() == 0
