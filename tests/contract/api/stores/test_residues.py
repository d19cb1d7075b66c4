"""What is left inside when a store's day ends; what levels refuse, and how they are listed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.questions.api_suite import Ask
from tests.support.questions.level_world import (
    DAYS,
    MONDAY,
    PLAIN,
    PUB,
    SATURDAY,
    SUNDAY,
    TUESDAY,
    asking_of,
    crossed,
    inside,
    level_world,
)
from tests.support.serving.serving_world import World


@pytest.fixture
def world() -> World:
    return level_world()


@pytest.fixture
def ask(world: World, tmp_path: Path) -> Iterator[Ask]:
    with asking_of(world, tmp_path) as function:
        yield function


def test_residue_is_the_level_with_which_the_store_s_day_ends(world: World, ask: Ask) -> None:
    world.rows = [
        crossed(PUB, f"{SUNDAY}T01:45", 100, 0),
        crossed(PUB, f"{SUNDAY}T10:00", 90, 60),
        crossed(PUB, f"{MONDAY}T01:45", 0, 33),
        crossed(PUB, f"{MONDAY}T02:00", 4, 4),
    ]
    asked = {"from": SUNDAY, "to": TUESDAY, "grain": "1d", "tz": "store"}

    answer = ask("/v1/metrics/occupancy_residue", store=PUB, **asked).json()

    days = [(row["start"], row["end"], row["value"]) for row in answer["rows"]]
    # From 04:00 to 04:00, and not the midnights that were asked for; 100 came the day before.
    assert days == [
        (f"{SUNDAY}T04:00:00+02:00", f"{MONDAY}T04:00:00+02:00", -3),
        (f"{MONDAY}T04:00:00+02:00", f"{TUESDAY}T04:00:00+02:00", 0),
    ]
    (last,) = inside(ask, PUB, f"{MONDAY}T01:45:00Z", f"{MONDAY}T02:00:00Z").values()
    assert last == -3


def test_residue_of_a_day_that_is_not_over_or_has_a_hole_is_not_known(
    world: World, ask: Ask
) -> None:
    world.pointers.pop()
    world.rows = [crossed(PUB, f"{MONDAY}T10:00", 90, 60)]
    asked = {"metric": "occupancy_residue", "grain": "1d", "tz": "store", "worth": True}

    found = inside(ask, PUB, SUNDAY, TUESDAY, **asked)

    assert [*found.values()] == [
        (0, "batch", "final", 0),
        (None, "missing", "provisional", None),
    ]


def test_residues_page_by_days_of_the_store(world: World, ask: Ask) -> None:
    world.rows = [crossed(PUB, f"{day}T10:00", 9, 9 - more) for more, day in enumerate(DAYS)]
    asked = {"from": SATURDAY, "to": TUESDAY, "grain": "1d", "tz": "store", "limit": "1"}

    page, found = ask("/v1/metrics/occupancy_residue", store=PUB, **asked).json(), list[Any]()
    while page["next"]:
        found += page["rows"]
        page = ask(page["next"]).json()

    assert [row["value"] for row in (*found, *page["rows"])] == [0, 1, 2]


REFUSED = [
    ("occupancy", {"by": "door"}, "by", "is no dimension of this metric; it has none"),
    ("occupancy", {"grain": "1d"}, "grain", "begins again at 0 with each day of the store; by 1d"),
    ("occupancy", {"grain": "1w"}, "grain", "occupancy is answered by 15m, 1h, for it begins"),
    ("occupancy_residue", {"grain": "15m"}, "grain", "; by 15m, 1h ask occupancy"),
    ("occupancy_residue", {"grain": "1d", "tz": "UTC"}, "tz", "; ask with tz=store"),
]


@pytest.mark.parametrize(("metric", "asked", "field", "told"), REFUSED)
def test_what_a_level_cannot_be_asked_is_refused_with_the_way_out(
    ask: Ask, metric: str, asked: dict[str, str], field: str, told: str
) -> None:
    answer = ask(f"/v1/metrics/{metric}", store=PUB, **{"from": MONDAY, "to": TUESDAY} | asked)

    (wrong,) = answer.json()["errors"]
    assert (answer.status_code, wrong["field"]) == (422, field)
    assert told in answer.json()["detail"]


def test_store_without_an_entry_has_days_of_the_default_zone(world: World, ask: Ask) -> None:
    world.rows = [crossed(PLAIN, f"{SUNDAY}T23:45", 3, 0), crossed(PLAIN, f"{MONDAY}T00:00", 1, 0)]

    found = inside(ask, PLAIN, f"{SUNDAY}T23:45:00Z", f"{MONDAY}T00:15:00Z")
    days = inside(ask, PLAIN, SUNDAY, TUESDAY, metric="occupancy_residue", grain="1d")

    assert ([*found.values()], [*days.values()]) == ([3, 1], [3, 1])


def test_catalogue_tells_that_it_is_a_level(ask: Ask) -> None:
    listed = {one["id"]: one for one in ask("/v1/metrics").json()["metrics"]}

    inside, left = listed["occupancy"], listed["occupancy_residue"]
    assert (inside["kind"], inside["unit"], inside["grains"]) == ("level", "persons", ["15m", "1h"])
    assert (left["kind"], left["grains"], left["by"]) == ("level", ["1d"], [])
