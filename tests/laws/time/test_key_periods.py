"""Key periods cover all time, each instant once, however clocks are set."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.time.day_clock import DayClock, KeyDays
from tests.support.twin.day_clocks import clocks

moving = clocks(date(2026, 3, 20), date(2026, 11, 10))
key_days = st.builds(KeyDays, st.integers(1, 9))
instants = st.datetimes(datetime(2017, 1, 1), datetime(2027, 1, 1)).map(
    lambda instant: instant.replace(tzinfo=UTC)
)
# The hours about the changes of clocks, in which all that is hard happens.
changes = st.builds(
    lambda change, minutes: change + timedelta(minutes=minutes),
    st.sampled_from(
        (
            datetime(2026, 3, 29, 1, tzinfo=UTC),
            datetime(2026, 10, 25, 1, tzinfo=UTC),
            datetime(2026, 11, 1, 6, tzinfo=UTC),
            datetime(2026, 4, 4, 15, tzinfo=UTC),
        )
    ),
    st.integers(-300, 300),
)


@given(instants | changes, moving, key_days)
def test_each_instant_lies_in_its_period_and_the_next_begins_where_it_ends(
    instant: datetime, clock: DayClock, keys: KeyDays
) -> None:
    first_day, start, end = keys.period(instant, clock)

    assert start <= instant < end
    assert keys.period(start, clock).first_day == first_day
    assert keys.period(end, clock) == (
        first_day + timedelta(days=keys.days),
        end,
        keys.period(end, clock).end,
    )


@pytest.mark.parametrize(
    ("starts", "instant", "day"),
    [
        (time(0), "2026-03-01T22:59:00+00:00", "2026-03-01"),
        (time(0), "2026-03-01T23:00:00+00:00", "2026-03-02"),
        # Closed at 02:00: the late visit is of the evening before.
        (time(4), "2026-03-02T00:50:00+00:00", "2026-03-01"),
        (time(4), "2026-03-02T03:00:00+00:00", "2026-03-02"),
        # 02:30 of the clock comes twice on this night: the day begins at the first.
        (time(2, 30), "2026-10-25T00:29:00+00:00", "2026-10-24"),
        (time(2, 30), "2026-10-25T00:30:00+00:00", "2026-10-25"),
        (time(2, 30), "2026-10-25T01:10:00+00:00", "2026-10-25"),
    ],
)
def test_day_begins_by_the_store_s_own_clock(starts: time, instant: str, day: str) -> None:
    keys, clock = KeyDays(), DayClock.from_zone(ZoneInfo("Europe/Bratislava"), starts)

    assert keys.period(datetime.fromisoformat(instant), clock).first_day.isoformat() == day


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_days_of_a_clock_change_are_as_long_as_they_are(day: str, hours: int) -> None:
    noon = datetime.fromisoformat(f"{day}T12:00:00+00:00")

    _, start, end = KeyDays().period(noon, DayClock.from_zone(ZoneInfo("Europe/Bratislava")))

    assert end - start == timedelta(hours=hours)
