"""When levels begin anew: windows of a store's day, by its own clock."""

from datetime import date, time
from zoneinfo import ZoneInfo

import pytest

from serving.questions.grains import Resets
from tally.time.day_clock import DayClock
from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.serving_world import at

BRATISLAVA = ZoneInfo("Europe/Bratislava")


@pytest.mark.parametrize(
    ("end", "starts", "windows"),
    [
        ("2026-03-29T12:00", "2026-03-28T23:00", 92),
        ("2026-10-25T12:00", "2026-10-24T22:00", 100),
        ("2026-03-02T12:00", "2026-03-01T23:00", 96),
        # What ends with the day is of it, what begins with the next one is of that.
        ("2026-03-02T23:00", "2026-03-01T23:00", 96),
        ("2026-03-02T23:15", "2026-03-02T23:00", 96),
    ],
)
def test_day_before_an_end_has_as_many_windows_as_the_clock_has_quarter_hours(
    end: str, starts: str, windows: int
) -> None:
    day = Resets(DayClock.from_zone(BRATISLAVA)).day_before(at(end))

    assert day == TimeRange(at(starts), at(starts) + windows * WINDOW)


def test_day_that_begins_at_four_is_that_of_the_evening_before() -> None:
    day = Resets(DayClock.from_zone(BRATISLAVA, time(4))).day(at("2026-03-02T01:30"))

    assert day == TimeRange(at("2026-03-01T03:00"), at("2026-03-02T03:00"))


def test_own_day_has_the_date_that_was_asked_for() -> None:
    day = Resets(DayClock.from_zone(BRATISLAVA, time(4))).day_on(date(2026, 3, 2))

    assert day == TimeRange(at("2026-03-02T03:00"), at("2026-03-03T03:00"))


def test_window_over_a_reset_that_is_on_no_quarter_hour_is_of_the_day_in_which_it_begins() -> None:
    # Until 1972 Monrovia's midnight was at 00:44:30 UTC.
    day = Resets(DayClock.from_zone(ZoneInfo("Africa/Monrovia"))).day(at("1971-06-02T12:00"))

    assert day == TimeRange(at("1971-06-02T00:45"), at("1971-06-03T00:45"))
