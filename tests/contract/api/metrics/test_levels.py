"""Persons inside: who came and did not go since the store's day began, by the store's clock."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.records.gaps import AcceptedGap
from runtime.registry.sources import TRAFFIC
from serving.storage.tables import ViewRow
from tests.support.questions.api_suite import Ask
from tests.support.questions.level_world import (
    BRATISLAVA,
    KATHMANDU,
    MONDAY,
    PUB,
    SATURDAY,
    STORES,
    SUNDAY,
    TUESDAY,
    asking_of,
    crossed,
    inside,
    level_world,
)
from tests.support.serving.serving_world import Stored, World, at, flip


@pytest.fixture
def world() -> World:
    return level_world()


@pytest.fixture
def ask(world: World, tmp_path: Path) -> Iterator[Ask]:
    with asking_of(world, tmp_path) as function:
        yield function


def test_level_is_what_came_and_did_not_go_since_the_local_day_began(
    world: World, ask: Ask
) -> None:
    # 22:45Z is the last quarter hour of Saturday in Bratislava, 23:00Z the first of Sunday.
    world.rows = [
        crossed(BRATISLAVA, f"{SATURDAY}T22:45", 9, 2),
        crossed(BRATISLAVA, f"{SATURDAY}T23:00", 3, 1),
        crossed(BRATISLAVA, f"{SATURDAY}T23:30", 1, 2),
    ]

    assert inside(ask, BRATISLAVA, f"{SATURDAY}T22:30:00Z", f"{SATURDAY}T23:45:00Z") == {
        f"{SATURDAY}T22:45:00Z": 0,
        f"{SATURDAY}T23:00:00Z": 7,
        f"{SATURDAY}T23:15:00Z": 2,
        f"{SATURDAY}T23:30:00Z": 2,
        f"{SATURDAY}T23:45:00Z": 1,
    }


def test_question_that_begins_at_noon_knows_who_came_in_the_morning(world: World, ask: Ask) -> None:
    world.rows = [
        crossed(BRATISLAVA, f"{SATURDAY}T23:15", 20, 3),
        crossed(BRATISLAVA, f"{SUNDAY}T12:00", 1, 5),
    ]

    found = inside(ask, BRATISLAVA, f"{SUNDAY}T12:00:00Z", f"{SUNDAY}T12:15:00Z", worth=True)

    assert found == {f"{SUNDAY}T12:15:00Z": (13, "batch", "final", 8)}


def test_day_begins_when_the_store_says_and_not_at_midnight(world: World, ask: Ask) -> None:
    world.rows = [
        crossed(PUB, f"{MONDAY}T21:00", 30, 10),
        crossed(PUB, f"{TUESDAY}T00:30", 0, 15),
        crossed(PUB, f"{TUESDAY}T02:15", 2, 0),
    ]

    found = inside(ask, PUB, f"{TUESDAY}T00:15:00Z", f"{TUESDAY}T02:30:00Z")

    assert [*found.values()] == [20, 5, 5, 5, 5, 5, 5, 0, 2]


def test_hour_that_holds_the_reset_ends_with_what_came_behind_it(world: World, ask: Ask) -> None:
    # Midnight of Kathmandu is 18:15Z.
    world.rows = [
        crossed(KATHMANDU, f"{MONDAY}T10:00", 50, 0),
        crossed(KATHMANDU, f"{MONDAY}T18:00", 7, 0),
        crossed(KATHMANDU, f"{MONDAY}T18:15", 4, 0),
        crossed(KATHMANDU, f"{MONDAY}T18:45", 1, 0),
    ]

    hours = inside(ask, KATHMANDU, f"{MONDAY}T17:00:00Z", f"{MONDAY}T19:00:00Z", grain="1h")

    assert hours == {f"{MONDAY}T18:00:00Z": 50, f"{MONDAY}T19:00:00Z": 5}


def test_zone_that_is_asked_for_moves_no_reset(world: World, ask: Ask) -> None:
    world.rows = [crossed(KATHMANDU, f"{MONDAY}T{hour:02d}:00", 1, 0) for hour in range(24)]
    span = (f"{MONDAY}T17:30:00Z", f"{MONDAY}T19:30:00Z")

    zones = ("UTC", "America/New_York", "store", "Asia/Kathmandu")
    found = [[*inside(ask, KATHMANDU, *span, tz=zone).values()] for zone in zones]

    assert found == [[18, 18, 19, 0, 0, 0, 1, 1]] * len(zones)


@pytest.mark.parametrize(
    ("first", "quarters"), [(SUNDAY, 92), (MONDAY, 96), ("2026-10-25", 100), ("2026-10-26", 96)]
)
def test_night_on_which_clocks_are_set_counts_once(
    world: World, ask: Ask, first: str, quarters: int
) -> None:
    day = datetime.fromisoformat(first)
    dates = [f"{day + timedelta(more):%Y-%m-%d}" for more in (-1, 0, 1)]
    world.pointers = [(TRAFFIC, flip(one, 1, f"{one}T23:00", pin=10)) for one in dates]
    starts = [at(f"{dates[0]}T00:00") + timedelta(minutes=15) * more for more in range(3 * 96)]
    world.rows = [crossed(BRATISLAVA, f"{start:%Y-%m-%dT%H:%M}", 2, 1) for start in starts]

    found = inside(ask, BRATISLAVA, first, dates[2], tz="store")

    assert [*found.values()] == [*range(1, quarters + 1)]


def test_pages_that_part_a_day_are_one_answer(world: World, ask: Ask) -> None:
    starts = [f"{day}T{hour:02d}:00" for day in (SUNDAY, MONDAY) for hour in range(24)]
    world.rows = [crossed(PUB, start, 3, 1) for start in starts]
    span = {"from": SUNDAY, "to": TUESDAY, "tz": "store", "limit": "7"}

    page, rows = ask("/v1/metrics/occupancy", store=PUB, **span).json(), list[Any]()
    while page["next"]:
        rows += page["rows"]
        page = ask(page["next"]).json()
    rows += page["rows"]

    whole = inside(ask, PUB, SUNDAY, TUESDAY, tz="store", limit="1000")
    assert {row["end"]: row["value"] for row in rows} == whole
    # From 04:00 on: the hour that spring leaves out belongs to Saturday.
    assert len(rows) == len(whole) == 96 + 96


def test_rebuild_of_the_day_before_a_page_is_told(world: World, ask: Ask) -> None:
    # The first window of the answer hangs on those of Sunday, none of the second page does.
    first = {"from": f"{MONDAY}T00:00:00Z", "to": f"{MONDAY}T23:15:00Z", "limit": "92"}
    page = ask("/v1/metrics/occupancy", store=BRATISLAVA, **first).json()

    world.pointers.append((TRAFFIC, flip(SUNDAY, 2, f"{TUESDAY}T23:30", pin=10)))

    assert ask(page["next"]).status_code == 409


def test_records_that_are_gone_of_before_the_question_are_told(world: World, ask: Ask) -> None:
    first, last = (at(f"{SUNDAY}T22:{minute}") for minute in (10, 40))
    world.gaps = [AcceptedGap("raw-traffic", 0, 7, 12, first, last, last, "deleted by hand")]
    noon = {"from": f"{MONDAY}T12:00:00Z", "to": f"{MONDAY}T12:15:00Z"}

    found = {
        name: ask(f"/v1/metrics/{name}", store=BRATISLAVA, **noon).json()["gaps"]
        for name in ("occupancy", "visitors_in")
    }

    # Whoever came in the first hour of the local day may be inside at noon.
    assert (len(found["occupancy"]), found["visitors_in"]) == (1, [])


def test_behind_a_hole_no_level_is_known_until_the_next_reset(world: World, ask: Ask) -> None:
    world.pointers = [
        (TRAFFIC, flip(SUNDAY, 1, f"{TUESDAY}T23:00", pin=10, covered_until=f"{SUNDAY}T20:00")),
        (TRAFFIC, flip(MONDAY, 1, f"{TUESDAY}T23:00", pin=10)),
    ]
    world.rows = [
        crossed(BRATISLAVA, f"{SUNDAY}T22:00", 5, 0, generation=None),
        crossed(PUB, f"{SUNDAY}T22:15", 5, 0, generation=None),
        *(
            crossed(PUB, f"{SUNDAY}T{hour}:{m}", 1, 0, None)
            for hour in (20, 21)
            for m in ("00", 15)
        ),
    ]

    found = inside(ask, PUB, f"{SUNDAY}T19:45:00Z", f"{SUNDAY}T20:45:00Z", worth=True)
    behind = inside(ask, PUB, f"{SUNDAY}T22:15:00Z", f"{MONDAY}T02:15:00Z")

    assert [*found.values()] == [
        (0, "batch", "final", 0),
        (1, "mixed", "provisional", 4),
        (2, "mixed", "provisional", 8),
        (None, "missing", "provisional", None),
    ]
    # Known windows behind the hole help nobody; at 04:00 of the store all begins anew.
    assert [*behind.values()] == [None] * 15 + [0]


def test_one_provisional_quarter_hour_makes_the_rest_of_the_day_so(world: World, ask: Ask) -> None:
    world.rows = [
        crossed(BRATISLAVA, f"{MONDAY}T08:00", 6, 0),
        Stored(TRAFFIC, BRATISLAVA, ahead(f"{MONDAY}T08:15", 9, 1)),
    ]
    span = (f"{MONDAY}T08:00:00Z", f"{MONDAY}T08:45:00Z")

    found = inside(ask, BRATISLAVA, *span, worth=True)
    after = inside(ask, BRATISLAVA, f"{MONDAY}T22:00:00Z", f"{MONDAY}T22:15:00Z", worth=True)

    assert [*found.values()] == [
        (6, "batch", "final", 4),
        (14, "mixed", "provisional", 9),
        (14, "mixed", "provisional", 9),
    ]
    assert [*after.values()] == [(0, "batch", "final", 0)]


def ahead(start: str, came: int, left: int) -> ViewRow:
    """A row of the speed layer, which has seen more than the generation."""
    return crossed(BRATISLAVA, start, came, left, None).row._replace(events=5)


def test_more_out_than_in_is_shown_as_it_is(world: World, ask: Ask) -> None:
    world.rows = [crossed(BRATISLAVA, f"{MONDAY}T08:00", 40, 43)]

    found = inside(ask, BRATISLAVA, f"{MONDAY}T08:00:00Z", f"{MONDAY}T08:15:00Z")

    assert [*found.values()] == [-3]


def test_each_store_has_its_own_reset(world: World, ask: Ask) -> None:
    world.rows = [crossed(store, f"{MONDAY}T01:30", 1, 0) for store in STORES]
    span = {"from": f"{MONDAY}T02:00:00Z", "to": f"{MONDAY}T02:15:00Z"}

    answer = ask("/v1/metrics/occupancy", store="367,406,500", **span).json()

    found = {one["store"]: one["rows"][0]["value"] for one in answer["series"]}
    assert found == {BRATISLAVA: 1, KATHMANDU: 1, PUB: 0}
