"""Blocks of a local day: what is told of it, whatever its length and whoever came."""

import doctest
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from serving.disclosure import DayCutter
from serving.merge.served import ServedWindow, Status
from tally.algebra.merge import Axes, MergedWindow, Parts
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.people import small_cells
from tally.time.day_clock import DayClock
from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.serving_world import WIFI

ROME = ZoneInfo("Europe/Rome")
# Clocks go forward, back, and not.
LENGTHS = {"2026-03-29": 92, "2026-10-25": 100, "2026-11-23": 96}


def local_day(text: str) -> TimeRange:
    start = datetime.fromisoformat(text)
    return TimeRange(
        *(one.replace(tzinfo=ROME).astimezone(UTC) for one in (start, start + timedelta(days=1)))
    )


def visits(count: int, devices: range) -> Parts:
    brought = {"visits": count, "visitors": [*devices]}
    return {part.name: brought.get(part.name, part.zero) for part in WIFI.parts}


def window(parts: Parts | None = None, is_settled: bool = True) -> ServedWindow:
    values: dict[Axes, Parts] = {} if parts is None else {("fixed",): parts}
    status: Status = "final" if is_settled else "provisional"
    return ServedWindow(MergedWindow("batch", 1, values), status)


def windows(day: TimeRange, found: dict[int, ServedWindow]) -> dict[datetime, ServedWindow]:
    count = (day.end - day.start) // WINDOW
    return {day.start + one * WINDOW: found.get(one, window()) for one in range(count)}


CUTTER = DayCutter(WIFI, "visits", 10, DayClock.from_zone(ROME))


@pytest.mark.parametrize(("text", "quarters"), LENGTHS.items())
def test_an_empty_day_of_any_length_is_told_by_quarter_hours(text: str, quarters: int) -> None:
    day = local_day(text)

    told = CUTTER.disclose_day(day, windows(day, {}))

    assert (told.suppression_reason, len(told.borders)) == (None, quarters + 1)


@pytest.mark.parametrize("text", LENGTHS)
def test_few_of_a_quarter_hour_join_the_next_ones(text: str) -> None:
    day = local_day(text)
    found = {
        40: window(visits(3, range(1, 4))),
        42: window(visits(9, range(4, 13))),
        43: window(visits(20, range(1, 21))),
    }

    told = CUTTER.disclose_day(day, windows(day, found))

    hidden = [one for one in windows(day, {}) if one not in told.borders]
    assert hidden == [day.start + one * WINDOW for one in (41, 42)]


def test_many_visits_of_few_devices_are_of_few() -> None:
    day = local_day("2026-11-23")

    told = CUTTER.disclose_day(day, windows(day, {40: window(visits(30, range(1, 4)))}))

    assert told.suppression_reason == "too few devices to tell"


def test_a_day_with_a_window_that_may_change_is_not_told() -> None:
    day = local_day("2026-11-23")
    found = {40: window(visits(30, range(1, 31))), 90: window(is_settled=False)}

    told = CUTTER.disclose_day(day, windows(day, found))

    assert told.suppression_reason == "withheld until all of its days are settled"


@pytest.mark.parametrize("text", ["1", "4", "-1"])
def test_a_smallest_cell_that_hides_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="TALLY_PRIVACY_SMALLEST_CELL"):
        Settings.load({"TALLY_PRIVACY_SMALLEST_CELL": text})


def test_by_default_nothing_is_withheld() -> None:
    assert Settings.load({}).privacy_smallest_cell == 0
    assert Settings.load({"TALLY_PRIVACY_SMALLEST_CELL": "10"}).privacy_smallest_cell == 10


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(small_cells).failed == 0
