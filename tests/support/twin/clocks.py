"""When the clocks of all time zones were set, and will be."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

FIRST, LAST = datetime(2007, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
_WEEK, _SECOND = timedelta(days=7), timedelta(seconds=1)


class ClockChange(NamedTuple):
    """From an instant on a clock is that far ahead of UTC."""

    instant: datetime
    ahead: timedelta | None


@cache
def clock_changes() -> Mapping[str, Sequence[ClockChange]]:
    """Those between FIRST and LAST by zone, of zones whose clocks are the same of one of them."""
    found: dict[tuple[timedelta | None, Sequence[ClockChange]], str] = {}
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        found.setdefault((_ahead(zone, FIRST), _changes_of(zone)), name)
    return {name: changes for (_, changes), name in found.items()}


def _changes_of(zone: ZoneInfo) -> Sequence[ClockChange]:
    weeks = [FIRST + number * _WEEK for number in range((LAST - FIRST) // _WEEK + 1)]
    return tuple(
        _change_between(zone, begin, end)
        for begin, end in pairwise(weeks)
        if _ahead(zone, begin) != _ahead(zone, end)
    )


def _change_between(zone: ZoneInfo, begin: datetime, end: datetime) -> ClockChange:
    ahead = _ahead(zone, end)
    while end - begin > _SECOND:
        between = (begin + (end - begin) / 2).replace(microsecond=0)
        if _ahead(zone, between) == ahead:
            end = between
        else:
            begin = between
    return ClockChange(end, ahead)


def _ahead(zone: ZoneInfo, instant: datetime) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()
