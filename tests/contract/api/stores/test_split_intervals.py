"""A row says where an interval of a counter lies across its begin or its end, and nowhere else."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest

from runtime.registry.sources import TRAFFIC
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, Stored, World, counted, flip
from web.api.app import create_app

DAY, AFTER = "2026-11-20", "2026-11-21"
# Ten-minute intervals from 10:00 to 11:00: across 10:15 and 10:45, not across 10:30.
ACROSS = {"10:00": (0, 1), "10:15": (1, 0), "10:30": (0, 1), "10:45": (1, 0)}


def divided(stored: Stored, begin: int, end: int) -> Stored:
    """The same with so many intervals across its begin and its end."""
    parts = (*stored.row.parts[:-2], begin, end)
    return replace(stored, row=stored.row._replace(parts=parts))


@pytest.fixture
def ask() -> Iterator[Ask]:
    rows = [
        divided(counted("9", f"{DAY}T{start}", 2, 10, 7), *across)
        for start, across in ACROSS.items()
    ]
    world = World(rows)
    world.pointers = [(TRAFFIC, flip(DAY, 7, "2026-11-22T12:00", pin=100))]
    world.activity = [(TRAFFIC, Activity("9", date(2026, 11, 20), date(2026, 11, 21)))]
    with asking(create_app(Settings(), MemoryViews(world))) as function:
        yield function


@pytest.mark.parametrize(
    ("grain", "first", "until", "expected"),
    [
        ("15m", "10:00", "11:00", [True, True, True, True]),
        ("15m", "11:00", "11:30", [False, False]),
        ("1h", "10:00", "11:00", [False]),
        ("1h", "09:00", "12:00", [False, False, False]),
    ],
)
def test_only_rows_whose_border_is_crossed_are_split(
    ask: Ask, grain: str, first: str, until: str, expected: list[bool]
) -> None:
    span = {"from": f"{DAY}T{first}:00Z", "to": f"{DAY}T{until}:00Z", "grain": grain}
    rows = ask("/v1/metrics/visitors_in", store="9", **span).json()["rows"]

    assert [row.get("split", False) for row in rows] == expected
    # It is a mark of its own: what is divided is neither estimated nor incomplete.
    assert all(row["complete"] and "estimated" not in row for row in rows)


def test_half_an_hour_across_the_next_one_is_split(ask: Ask) -> None:
    span = {"from": f"{DAY}T10:00:00Z", "to": f"{DAY}T10:45:00Z", "grain": "15m"}
    rows = ask("/v1/metrics/visitors_in", store="9", **span).json()["rows"]

    assert [row["value"] for row in rows] == [10, 10, 10]
    assert all(row["split"] for row in rows)
