"""`restated`: the value differs from that of the first generation that covered the window,
whichever one of its day that was."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.questions.api_suite import asking, window
from tests.support.serving.serving_world import MemoryViews, World, flip, sale
from web.api.app import create_app

DAY = "2017-09-19"
# Generation 1 covers the day's first hour, 2 the morning, 3 the whole day.
FLIPS = [
    flip(DAY, 1, f"{DAY}T01:00", pin=1, covered_until=f"{DAY}T01:00"),
    flip(DAY, 2, f"{DAY}T12:10", pin=2, covered_until=f"{DAY}T12:00"),
    flip(DAY, 3, "2017-09-20T02:00", pin=3),
]


def asked(start: str, values: Sequence[int | None], **more: str) -> dict[str, Any]:
    """The served row of a window that had these values in generations 1, 2, 3; None is no row."""
    rows = [
        sale("367", f"{DAY}T{start}", 1, value, generation=n)
        for n, value in enumerate(values, 1)
        if value is not None
    ]
    views = MemoryViews(World(rows=rows, pointers=[(SALES, one) for one in FLIPS]))
    views.world.activity = [(SALES, Activity("367", date(2017, 9, 19), date(2017, 9, 19)))]
    with asking(create_app(Settings(), views)) as ask:
        return window(lambda path, **known: ask(path, **known, **more), "revenue", f"{DAY}T{start}")


@pytest.mark.parametrize(
    ("start", "values", "status"),
    [
        ("10:00", (None, 300, 900), "restated"),
        ("10:00", (200, 300, 300), "final"),
        ("10:00", (None, None, 900), "restated"),
        ("10:00", (None, 900, None), "restated"),
        ("10:00", (None, 300, 300), "final"),
        ("00:30", (100, 100, 900), "restated"),
        ("00:30", (100, 900, 100), "final"),
        ("15:00", (None, 300, 900), "final"),
    ],
)
def test_value_is_compared_with_the_first_generation_that_covered_its_window(
    start: str, values: Sequence[int | None], status: str
) -> None:
    row = asked(start, values)
    assert (row["value"], row["status"], row["complete"]) == (values[-1] or 0, status, True)


def test_as_of_compares_with_what_had_been_told_by_then() -> None:
    row = asked("00:30", (100, 900, 100), as_of=f"{DAY}T13:00:00Z")
    assert (row["value"], row["status"]) == (900, "restated")
