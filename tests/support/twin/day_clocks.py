"""Clocks of stores for properties: of odd zones, some of which a store leaves for another."""

from collections.abc import Sequence
from datetime import date, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from tally.time.day_clock import DatedClock, DayClock, irregular_days

ZONES = ("UTC", "Europe/Bratislava", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
LONGEST = timedelta(hours=48)
starts = st.builds(time, st.integers(0, 5), st.sampled_from((0, 15, 30, 45)))


def _clock(parts: Sequence[DatedClock]) -> DayClock:
    first, *others = sorted(parts)
    return DayClock((first._replace(first_day=date.min), *others))


def clocks(
    first: date, last: date, zones: Sequence[str] = ZONES, most: int = 3
) -> st.SearchStrategy[DayClock]:
    """Clocks that change between these days, fewer than `most` times."""
    part = st.builds(
        DatedClock, st.dates(first, last), st.sampled_from(zones).map(ZoneInfo), starts
    )
    parts = st.lists(part, min_size=1, max_size=most, unique_by=lambda one: one.first_day)
    return parts.map(_clock).filter(lambda clock: not irregular_days(clock, LONGEST))
