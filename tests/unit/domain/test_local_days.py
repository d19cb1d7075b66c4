"""Days of a store's clock: how long they are, and when the store is open on them."""

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest

from tally.time.day_clock import DayClock, local_day, local_day_at
from tally.time.opening_hours import open_spans, parse_opening_hours

BRATISLAVA, KATHMANDU = ZoneInfo("Europe/Bratislava"), ZoneInfo("Asia/Kathmandu")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("day", "day_starts", "quarter_hours"),
    [
        ("2026-03-28", 0, 96),
        ("2026-03-29", 0, 92),
        ("2026-10-25", 0, 100),
        ("2026-11-26", 0, 96),
        ("2024-02-29", 0, 96),
        # Clocks change at 02:00 and at 03:00: before such a day begins, in the one before.
        ("2026-03-28", 4, 92),
        ("2026-03-29", 4, 96),
        ("2026-10-24", 4, 100),
    ],
)
def test_a_day_has_92_96_or_100_quarter_hours(
    day: str, day_starts: int, quarter_hours: int
) -> None:
    found = local_day(date.fromisoformat(day), DayClock.from_zone(BRATISLAVA, time(day_starts)))

    assert found.quarter_hours == quarter_hours


def test_a_day_of_kathmandu_begins_on_a_quarter_hour_of_utc() -> None:
    found = local_day(date(2026, 11, 26), DayClock.from_zone(KATHMANDU))

    assert (found.start, found.end) == (utc("2026-11-25T18:15"), utc("2026-11-26T18:15"))
    assert found.quarter_hours == 96


def test_a_day_that_its_zone_has_left_out_has_none() -> None:
    assert (
        local_day(date(2011, 12, 30), DayClock.from_zone(ZoneInfo("Pacific/Apia"))).quarter_hours
        == 0
    )


def test_each_quarter_hour_counts_once_where_days_begin_on_none() -> None:
    # Monrovia's midnights were 44 minutes and 30 seconds after those of UTC, until that one.
    days = [
        local_day(date(1972, 1, day), DayClock.from_zone(ZoneInfo("Africa/Monrovia")))
        for day in (6, 7, 8)
    ]

    assert [one.quarter_hours for one in days] == [96, 93, 96]


def test_late_hours_are_of_the_day_before_where_days_begin_at_four() -> None:
    found = local_day_at(utc("2026-11-27T00:30"), DayClock.from_zone(BRATISLAVA, time(4)))

    assert found == local_day(date(2026, 11, 26), DayClock.from_zone(BRATISLAVA, time(4)))


@pytest.mark.parametrize(
    ("day", "opens", "closes"),
    [
        ("2026-11-26", "2026-11-26T17:00", "2026-11-27T01:00"),
        # 02:00 is the moment at which clocks show 03:00: the night is as long as ever.
        ("2026-03-28", "2026-03-28T17:00", "2026-03-29T01:00"),
        # 02:00 is shown twice: the first is meant.
        ("2026-10-24", "2026-10-24T16:00", "2026-10-25T00:00"),
    ],
)
def test_a_store_that_closes_at_two_closes_on_the_day_after(
    day: str, opens: str, closes: str
) -> None:
    asked = date.fromisoformat(day)
    spans = parse_opening_hours({"mon-sun": "18:00-02:00"}).spans(asked)

    assert [*open_spans(asked, spans, BRATISLAVA)] == [(utc(opens), utc(closes))]


def test_a_span_of_what_the_clock_leaves_out_is_none() -> None:
    spans = parse_opening_hours({"mon-sun": "02:30-03:15"}).spans(date(2026, 3, 29))

    assert [*open_spans(date(2026, 3, 29), spans, BRATISLAVA)] == []


def test_the_end_of_the_calendar_has_no_day() -> None:
    with pytest.raises(OverflowError):
        local_day(date.max, DayClock.from_zone(BRATISLAVA))
