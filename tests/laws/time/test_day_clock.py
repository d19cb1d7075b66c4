"""A store's clock, also of one that moves to another zone or lets its days begin at another time:
each instant lies in one day, and what it shows is what a plain clock of that zone shows."""

from copy import deepcopy
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.time.day_clock import DatedClock, DayClock, irregular_days, zone_name
from tally.time.instants import instants_at_local_time
from tally.time.windows import WINDOW
from tests.support.twin.day_clocks import LONGEST, clocks

ROME, LONDON, TOKYO = map(ZoneInfo, ("Europe/Rome", "Europe/London", "Asia/Tokyo"))
MOVES = date(2026, 10, 24)
# Four weeks about the nights on which clocks are set back, in Europe and in America.
FIRST, LAST = date(2026, 10, 15), date(2026, 11, 12)
moving = clocks(FIRST, LAST)
instants = st.datetimes(datetime(2026, 10, 10), datetime(2026, 11, 18)).map(
    lambda instant: instant.replace(tzinfo=UTC)
)


def moved(before: ZoneInfo, after: ZoneInfo, starts: time = time(0)) -> DayClock:
    return DayClock((DatedClock(date.min, before), DatedClock(MOVES, after, starts)))


@given(moving, instants)
def test_each_instant_lies_in_the_day_that_has_begun_last(
    clock: DayClock, instant: datetime
) -> None:
    days = [FIRST + timedelta(days=more) for more in range(-10, 45)]
    begins = [clock.start_of_day(day) for day in days]

    assert all(before < after for before, after in pairwise(begins))
    begun = [day for day, begin in zip(days, begins, strict=True) if begin <= instant]
    assert clock.day(instant) == begun[-1]


@given(moving, instants)
def test_what_it_shows_is_what_the_zone_of_the_day_shows(
    clock: DayClock, instant: datetime
) -> None:
    part = clock.on(clock.day(instant))

    shown = instant.astimezone(clock.zone)

    assert shown.isoformat() == instant.astimezone(part.zone).isoformat()
    assert clock.at(instant) == part
    assert zone_name(clock.zone, instant) == part.zone.key


@given(moving, instants)
def test_an_instant_is_found_by_what_the_clock_shows_then(
    clock: DayClock, instant: datetime
) -> None:
    shown = instant.astimezone(clock.zone).replace(tzinfo=None)

    assert instant in instants_at_local_time(shown, clock.zone)


def test_a_day_before_a_move_is_longer_or_shorter_by_what_clocks_differ() -> None:
    eve = MOVES - timedelta(days=1)
    lengths = {
        after: [
            (clock.start_of_day(day + timedelta(days=1)) - clock.start_of_day(day)) // WINDOW
            for day in (eve, MOVES)
        ]
        for after, clock in ((one, moved(ROME, one)) for one in (LONDON, TOKYO))
    }

    assert lengths == {LONDON: [100, 96], TOKYO: [68, 96]}


def test_days_that_would_end_before_they_begin_are_found() -> None:
    # A day that began at 23:00 would end at 14:00 of that date.
    late = DayClock((DatedClock(date.min, LONDON, time(23)), DatedClock(MOVES, TOKYO)))
    far = DayClock(
        (
            DatedClock(date.min, ZoneInfo("Pacific/Kiritimati")),
            DatedClock(MOVES, ZoneInfo("Pacific/Pago_Pago")),
        )
    )
    eve = MOVES - timedelta(days=1)

    assert irregular_days(late, LONGEST) == [eve]
    assert irregular_days(far, LONGEST) == [eve]
    assert irregular_days(moved(ROME, TOKYO), LONGEST) == []


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("2026-10-23T23:30", ["2026-10-23T21:30Z"]),
        # Rome's clocks show it before the move, London's behind it.
        ("2026-10-24T00:30", ["2026-10-23T22:30Z", "2026-10-23T23:30Z"]),
        ("2026-10-24T01:30", ["2026-10-24T00:30Z"]),
    ],
)
def test_times_of_the_night_of_a_move(shown: str, found: list[str]) -> None:
    clock = moved(ROME, LONDON)

    instants = instants_at_local_time(datetime.fromisoformat(shown), clock.zone)

    assert instants == [datetime.fromisoformat(one) for one in found]


def test_a_time_that_the_move_leaves_out_is_read_by_the_zone_before() -> None:
    # Midnight in Rome is 23:00 in London.
    shown = datetime(2026, 10, 23, 23, 30)

    left_out = shown.replace(tzinfo=moved(LONDON, ROME).zone)

    assert instants_at_local_time(shown, moved(LONDON, ROME).zone) == []
    assert left_out.astimezone(UTC) == shown.replace(tzinfo=LONDON).astimezone(UTC)


def test_two_of_one_move_are_one_zone_and_a_copy_is_it_too() -> None:
    one, other = moved(ROME, LONDON), moved(ROME, LONDON)

    assert {one.zone, other.zone, deepcopy(one.zone)} == {one.zone}
    assert one.zone != moved(ROME, LONDON, time(4)).zone
    assert one.zone.key == "Europe/London"


@pytest.mark.parametrize("starts", [time(0), time(4), time(12), time(22)], ids=str)
def test_no_instant_lies_in_a_day_that_the_clock_leaves_out(starts: time) -> None:
    # Samoa went over the date line: behind 29 December 2011 came the 31st.
    clock = DayClock.from_zone(ZoneInfo("Pacific/Apia"), starts)
    instants = [datetime(2011, 12, 27, tzinfo=UTC) + number * WINDOW for number in range(8 * 96)]

    days = [clock.day(instant) for instant in instants]

    assert date(2011, 12, 30) not in days
    for instant, day in zip(instants, days, strict=True):
        assert clock.start_of_day(day) <= instant < clock.start_of_day(day + timedelta(days=1))
    assert len(days) == 768
