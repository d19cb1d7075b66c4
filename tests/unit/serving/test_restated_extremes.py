"""A minimum of 0 is a number, and no row is none: whoever turns one into the other restates it."""

from datetime import date, datetime, timedelta

import pytest

from serving.merge.served import FamilyReading, serve_windows
from tally.algebra.merge import WindowState
from tally.algebra.parts import Min, Sum, Value
from tally.families.family import Family
from tally.families.generation import FirstCoverage, GenerationRange
from tally.time.windows import TimeRange
from tests.support.serving.serving_world import at, flip

DAY = "2026-11-23"
START = at(f"{DAY}T10:00")
EARLIER = GenerationRange(date(2026, 11, 23), 1, 1, at(f"{DAY}T00:00"), START + timedelta(hours=14))


def status(family: Family, before: Value, now: Value) -> str:
    """Of a window whose one row held `before` in the generation that was the first to cover it."""

    def windows(value: Value) -> dict[datetime, WindowState]:
        return {START: WindowState(1, 1, {(): {"x": value}})} if value != "no row" else {}

    reading = FamilyReading(
        family,
        1,
        {EARLIER.day: flip(DAY, 2, "2026-11-24T02:00", pin=9)},
        windows(now),
        first_coverages={
            EARLIER.day: [
                FirstCoverage(EARLIER, TimeRange(EARLIER.covered_from, EARLIER.covered_until))
            ]
        },
        first_windows=windows(before),
    )
    (served,) = serve_windows(reading, [START])
    return served.status


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("no row", 0, "restated"),
        (0, "no row", "restated"),
        (None, 0, "restated"),
        (None, "no row", "final"),
        (0, 0, "final"),
        (3, 0, "restated"),
    ],
)
def test_zero_is_another_minimum_than_none(before: Value, now: Value, expected: str) -> None:
    assert status(Family("queues", (), (Min("x"),), epoch=1), before, now) == expected


def test_sum_of_zero_is_as_good_as_no_row() -> None:
    sums = Family("queues", (), (Sum("x"),), epoch=1)

    assert (status(sums, "no row", 0), status(sums, 0, "no row")) == ("final", "final")
