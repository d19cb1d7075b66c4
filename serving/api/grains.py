"""Stretches of time that answers are cut into: quarter hours, hours, days and weeks of a time zone, daylight saving included."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from tally.windows import WINDOW, window_start

GRAINS = ("15m", "1h", "1d", "1w")
HOUR = timedelta(hours=1)
Slot = tuple[datetime, datetime]


def on_grid(instant: datetime, grain: str, zone: ZoneInfo) -> bool:
    """Whether a slot of the grain begins at the instant."""
    if window_start(instant) != instant:
        return False
    local = instant.astimezone(zone)
    return grain == "15m" or (local.minute == 0 if grain == "1h" else _first_of_day(instant, zone) and _first_day(local, grain))


def nearest(instant: datetime, grain: str, zone: ZoneInfo) -> Slot:
    """The slot that the instant lies in: its start and end are the nearest values on the grid."""
    start = window_start(instant)
    while not on_grid(start, grain, zone):
        start -= WINDOW
    return start, _next(start, grain, zone)


@lru_cache(maxsize=256)
def slots(start: datetime, end: datetime, grain: str, zone: ZoneInfo) -> tuple[Slot, ...]:
    """Every slot of [start, end) in UTC, ascending; both ends are on the grid."""
    return tuple(_walk(start.astimezone(UTC), end, grain, zone))


def midnight(text_date: datetime, zone: ZoneInfo) -> datetime:
    """First instant of a local day in UTC, also where clocks jump over midnight."""
    return text_date.replace(tzinfo=zone).astimezone(UTC)


def _walk(start: datetime, end: datetime, grain: str, zone: ZoneInfo) -> Iterator[Slot]:
    while start < end:
        following = _next(start, grain, zone)
        yield start, following
        start = following


def _next(start: datetime, grain: str, zone: ZoneInfo) -> datetime:
    if grain == "15m":
        return start + WINDOW
    if grain == "1h":
        return _next_hour(start, zone)
    day = start.astimezone(zone).replace(tzinfo=None, fold=0, hour=0, minute=0)
    return midnight(day + timedelta(days=7 if grain == "1w" else 1), zone)


def _next_hour(start: datetime, zone: ZoneInfo) -> datetime:
    following = start + HOUR
    # Only where clocks change by half an hour (Lord Howe) is the next full local hour not an hour away.
    while not on_grid(following, "1h", zone):
        following += WINDOW
    return following


def _first_of_day(instant: datetime, zone: ZoneInfo) -> bool:
    local = instant.astimezone(zone).replace(tzinfo=None, fold=0)
    return midnight(datetime(local.year, local.month, local.day), zone) == instant


def _first_day(local: datetime, grain: str) -> bool:
    return grain == "1d" or local.weekday() == 0
