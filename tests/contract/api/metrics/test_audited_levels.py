"""The audit asks for levels too: by the store's own days, and leaves out what it has not read."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, time
from pathlib import Path
from typing import Any

import pytest

from ops.audit.by_catalogue import AuditedFamily, StoreDayStarts, compare_levels
from ops.audit.master import WindowKey, WindowValues
from ops.oracle import Scope
from runtime.registry.sources import TRAFFIC
from runtime.registry.stores import StoreEntry
from tests.support.questions.api_suite import Ask
from tests.support.questions.level_world import (
    MONDAY,
    PUB,
    SUNDAY,
    TUESDAY,
    asking_of,
    crossed,
    level_world,
)
from tests.support.serving.serving_world import World, at, flip

ENTRIES = {PUB: StoreEntry(tz="Europe/Bratislava", day_starts=time(4))}
DAYS = StoreDayStarts("UTC", ENTRIES)
EVENING = (PUB, at(f"{MONDAY}T20:00"))


@pytest.fixture
def world() -> World:
    found = level_world()
    found.rows = [
        # Of the day before: 04:00 of the pub is 02:00Z.
        crossed(PUB, f"{MONDAY}T01:45", 100, 0),
        crossed(PUB, f"{MONDAY}T08:00", 9, 2),
        crossed(PUB, f"{MONDAY}T20:00", 5, 14),
        crossed(PUB, f"{TUESDAY}T01:30", 4, 1),
    ]
    return found


@pytest.fixture
def ask(world: World, tmp_path: Path) -> Iterator[Any]:
    with asking_of(world, tmp_path) as function:
        yield lambda metric, asked, _by: rows_of(function, metric, asked)


def rows_of(ask: Ask, metric: str, asked: dict[str, str]) -> Any:
    answer = ask(f"/v1/metrics/{metric}", **asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def check_of(world: World, days: StoreDayStarts = DAYS) -> AuditedFamily:
    """The master has what the tables have."""
    values: dict[WindowKey, WindowValues] = {
        (one.store_id, one.row.window_start): {
            (): dict(zip(TRAFFIC.part_names, one.row.parts, strict=True))
        }
        for one in world.rows
    }
    return AuditedFamily(TRAFFIC, values, {one.day: one for _, one in world.pointers}, days)


def told(found: Any) -> set[tuple[str, Any, Any]]:
    return {(one.metric, one.expected, one.got) for one in found.differences}


def test_levels_that_agree_with_the_master_are_no_difference(world: World, ask: Any) -> None:
    found = compare_levels(ask, check_of(world), EVENING)

    # Of the window's end, and of the day's.
    assert found == (2, 0, [])


def test_a_record_of_hours_before_is_missed_in_each_level_behind_it(world: World, ask: Any) -> None:
    check = check_of(world)
    world.rows[1] = crossed(PUB, f"{MONDAY}T08:00", 8, 2)

    assert told(compare_levels(ask, check, EVENING)) == {
        ("occupancy", -2, -3),
        ("occupancy_residue", 1, 0),
    }
    assert told(compare_levels(ask, check, (PUB, at(f"{MONDAY}T07:45")))) == {
        ("occupancy_residue", 1, 0)
    }


def test_days_of_another_clock_than_the_store_s_are_found(world: World, ask: Any) -> None:
    wrong = StoreDayStarts("UTC", {PUB: StoreEntry(tz="Europe/Bratislava")})

    found = compare_levels(ask, check_of(world, wrong), EVENING)

    assert told(found) == {("occupancy", 98, -2), ("occupancy_residue", 98, 1)}


def test_level_that_is_told_behind_a_hole_is_a_difference(world: World, ask: Any) -> None:
    world.pointers.append(
        (TRAFFIC, flip(MONDAY, 2, f"{TUESDAY}T23:10", 10, covered_until=f"{MONDAY}T12:00"))
    )
    rows = [replace(one, generation=2) for one in world.rows[:2]]
    world.rows = [*rows, crossed(PUB, f"{MONDAY}T20:00", 5, 14, None), world.rows[-1]]
    check = check_of(world)

    def boasting(metric: str, asked: Any, by: Any) -> Any:
        return [{**row, "value": -2} for row in ask(metric, asked, by)]

    assert told(compare_levels(ask, check, EVENING)) == set()
    assert told(compare_levels(boasting, check, EVENING)) == {
        ("occupancy", None, -2),
        ("occupancy_residue", None, -2),
    }


def test_level_that_is_missing_though_all_is_published_is_a_difference(world: World) -> None:
    missing = {"value": None, "source": "missing", "status": "provisional", "complete": False}

    found = told(compare_levels(lambda *_: [missing], check_of(world), EVENING))

    assert ("occupancy", -2, None) in found and ("occupancy_residue", 1, None) in found
    assert told(compare_levels(lambda *_: [], check_of(world), EVENING)) == {
        ("occupancy", -2, None),
        ("occupancy_residue", 1, None),
    }


def test_level_of_a_day_that_is_not_wholly_in_the_scope_is_left_out(world: World, ask: Any) -> None:
    monday = Scope(first=date.fromisoformat(MONDAY), last=date.fromisoformat(MONDAY))
    check = check_of(world, replace(DAYS, scope=monday))

    # The pub's Monday ends on Tuesday, and its Sunday had begun on Sunday.
    assert compare_levels(ask, check, EVENING) == (1, 1, [])
    assert compare_levels(ask, check, (PUB, at(f"{MONDAY}T01:45"))) == (0, 2, [])


def test_store_that_no_file_has_gets_days_of_the_default_zone() -> None:
    found = DAYS.day("9", at(f"{SUNDAY}T23:59"))

    assert found.day.isoformat() == SUNDAY
