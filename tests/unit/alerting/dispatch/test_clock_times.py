"""Quiet hours and daily messages in local time: one instant for each date that there is."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from alerting.deliver.state.clock_times import (
    QuietHours,
    end_instant,
    parse_quiet_spans,
    quiet_until,
    start_instant,
)
from tally.errors import BadSettings

TIMES = (time(0), time(2, 30), time(7))
DAY = timedelta(days=1)
# Each way in which clocks were ever set, and a spread of the others.
ODD_ZONES = (
    *("Pacific/Apia", "Pacific/Fakaofo", "Pacific/Kiritimati", "Australia/Lord_Howe"),
    *("America/Havana", "Asia/Beirut", "America/Sao_Paulo", "Asia/Pyongyang", "Europe/Dublin"),
    *("Africa/Casablanca", "America/Caracas", "Antarctica/Troll", "Asia/Tehran", "UTC"),
    *("America/Nuuk", "America/Scoresbysund", "Asia/Gaza", "Africa/Juba", "Europe/Volgograd"),
)
ZONES = sorted({*ODD_ZONES, *sorted(available_timezones())[::40]})
QUIET = parse_quiet_spans((QuietHours("mon-sun", "22:00", "06:00"),))


def dates_shown(zone: ZoneInfo, first: date, days: int) -> set[date]:
    """The dates that the zone's clock shows, looked at every 15 minutes."""
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    quarters = (begin + number * timedelta(minutes=15) for number in range(days * 96))
    return {instant.astimezone(zone).date() for instant in quarters}


@pytest.mark.parametrize("name", ZONES)
def test_each_date_that_a_zone_has_has_one_instant_of_each_time(name: str) -> None:
    zone = ZoneInfo(name)
    for clock in TIMES:
        before = datetime(2006, 12, 30, tzinfo=UTC)
        for number in range(20 * 366):
            day = date(2007, 1, 1) + number * DAY
            instant = start_instant(day, clock, zone)
            if instant is None:
                assert (name, day) in (
                    ("Pacific/Apia", date(2011, 12, 30)),
                    ("Pacific/Fakaofo", date(2011, 12, 30)),
                )
                continue
            shown = instant.astimezone(zone).replace(tzinfo=None)
            assert instant > before
            # It shows that time, or another one because the clock has just been set.
            just_before = (instant - timedelta(seconds=1)).astimezone(zone).replace(tzinfo=None)
            wanted = datetime.combine(day, clock)
            assert shown == wanted or just_before < wanted < shown
            before = instant


def test_a_date_that_a_zone_has_left_out_has_no_instant() -> None:
    zone = ZoneInfo("Pacific/Apia")
    missing = date(2011, 12, 30)

    assert missing not in dates_shown(zone, date(2011, 12, 28), 5)
    assert start_instant(missing, time(7), zone) is None
    assert end_instant(missing, time(6), zone) == datetime(2011, 12, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end"), [(start_instant, "2026-10-25T00:30"), (end_instant, "2026-10-25T01:30")]
)
def test_of_a_time_that_comes_twice_a_start_is_the_first_and_an_end_the_last(
    start: object, end: str
) -> None:
    assert callable(start)
    found = start(date(2026, 10, 25), time(2, 30), ZoneInfo("Europe/Rome"))

    assert found.isoformat() == f"{end}:00+00:00"


@pytest.mark.parametrize("instant_of", [start_instant, end_instant])
def test_a_time_that_is_left_out_is_the_first_instant_after_it(instant_of: object) -> None:
    assert callable(instant_of)
    found = instant_of(date(2026, 3, 29), time(2, 30), ZoneInfo("Europe/Rome"))

    assert found.isoformat() == "2026-03-29T01:00:00+00:00"


@pytest.mark.parametrize(
    ("instant", "ends"),
    [
        ("2026-11-26T20:59:59", None),
        ("2026-11-26T21:00:00", "2026-11-27T05:00:00"),
        ("2026-11-27T04:59:59", "2026-11-27T05:00:00"),
        ("2026-11-27T05:00:00", None),
        # Nights of nine hours and of seven.
        ("2026-10-24T20:00:00", "2026-10-25T05:00:00"),
        ("2026-03-28T21:00:00", "2026-03-29T04:00:00"),
        ("2017-09-19T22:48:03", "2017-09-20T04:00:00"),
    ],
)
def test_quiet_hours_are_those_of_the_stores_clock(instant: str, ends: str | None) -> None:
    found = quiet_until(datetime.fromisoformat(f"{instant}+00:00"), QUIET, ZoneInfo("Europe/Rome"))

    assert (found and found.isoformat()) == (ends and f"{ends}+00:00")


def test_spans_that_follow_each_other_are_one() -> None:
    spans = parse_quiet_spans(
        (QuietHours("fri", "18:00", "24:00"), QuietHours("sat-sun", "00:00", "24:00"))
    )

    found = quiet_until(datetime(2026, 11, 27, 20, tzinfo=UTC), spans, ZoneInfo("UTC"))

    assert found == datetime(2026, 11, 30, tzinfo=UTC)


def test_a_night_before_a_date_that_is_left_out_ends_with_the_gap() -> None:
    found = quiet_until(datetime(2011, 12, 30, 9, tzinfo=UTC), QUIET, ZoneInfo("Pacific/Apia"))

    assert found == datetime(2011, 12, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "hours",
    [
        QuietHours("monday", "22:00", "06:00"),
        QuietHours("mon-", "22:00", "06:00"),
        QuietHours("", "22:00", "06:00"),
        QuietHours("mon", "24:00", "06:00"),
        QuietHours("mon", "22:00", "6:00"),
        QuietHours("mon", "22:00", "25:00"),
        QuietHours("mon", "٢٢:00", "06:00"),
        QuietHours("mon", "22:00\n", "06:00"),
    ],
)
def test_hours_that_are_none_are_refused(hours: QuietHours) -> None:
    with pytest.raises(BadSettings, match="quiet hours"):
        parse_quiet_spans((hours,))
