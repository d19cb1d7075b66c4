"""Windows of a key period that runs are the speed layer's, store by store; reports of visits."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from serving.storage.tables import Activity
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import WIFI, MemoryViews, World, at, flip, visits
from web.api.app import create_app

SUNDAY, MONDAY, TUESDAY = "2026-11-22", "2026-11-23", "2026-11-24"


@pytest.fixture
def world() -> World:
    """Of Monday's first generation a period of store 367 ran since 10:00, none of 406."""
    rows = [
        visits("367", f"{MONDAY}T09:30", (10, 20), passes=3, generation=1),
        visits("367", f"{MONDAY}T09:30", (10,)),
        visits("367", f"{MONDAY}T10:00", (30,)),
        visits("406", f"{MONDAY}T10:00", (40,), generation=1),
        visits("406", f"{MONDAY}T10:00", (30,)),
    ]
    world = World(rows, [(WIFI, flip(MONDAY, 1, f"{TUESDAY}T02:00", pin=10))])
    before = at(f"{MONDAY}T00:00"), at(f"{MONDAY}T10:00")
    world.answered = {("367", date(2026, 11, 23), 1): before}
    world.activity = [
        (WIFI, Activity(store, date(2026, 11, 23), date(2026, 11, 23))) for store in ("367", "406")
    ]
    return world


@pytest.fixture
def ask(world: World) -> Iterator[Ask]:
    with asking(create_app(Settings(), MemoryViews(world))) as function:
        yield function


def rows(ask: Ask, store: str) -> list[tuple[Any, ...]]:
    span = {"from": f"{MONDAY}T09:30:00Z", "to": f"{MONDAY}T10:30:00Z", "grain": "15m"}
    answer = ask("/v1/metrics/in_store_traffic", store=store, **span)
    assert answer.status_code == 200, answer.text
    names = ("value", "source", "status", "events")
    return [tuple(row[name] for name in names) for row in answer.json()["rows"]]


def test_windows_before_it_are_batch_s_and_those_in_it_the_speed_layer_s(ask: Ask) -> None:
    assert rows(ask, "367") == [
        (2, "batch", "final", 30),
        (0, "batch", "final", 0),
        (1, "speed", "provisional", None),
        (None, "missing", "provisional", None),
    ]


def test_of_a_store_that_was_not_heard_nothing_is_known(ask: Ask, world: World) -> None:
    """Nobody was there, or its network was down: who can tell."""
    world.answered["406", date(2026, 11, 23), 1] = None

    # What a row says is said; what none says is no zero.
    assert rows(ask, "406") == [
        (None, "missing", "provisional", None),
        (None, "missing", "provisional", None),
        (1, "batch", "provisional", 40),
        (None, "missing", "provisional", None),
    ]


def test_a_store_without_one_is_batch_s_whole(ask: Ask) -> None:
    assert rows(ask, "406") == [
        (0, "batch", "final", 0),
        (0, "batch", "final", 0),
        (1, "batch", "final", 40),
        (0, "batch", "final", 0),
    ]


def report(ask: Ask, name: str, store: str = "406", **asked: str) -> dict[str, Any]:
    days = {"from": MONDAY, "to": TUESDAY} | asked
    answer = ask(f"/v1/reports/{name}", store=store, **days)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_report_of_days_whose_days_before_are_not_known_tells_no_change(ask: Ask) -> None:
    found = report(ask, "average_stay_time")

    assert (found["value"], found["previous"]["value"]) == (40 * 60, None)
    assert (found["change_percent"], found["coverage"], found["complete"]) == (None, 1.0, False)


def test_report_beside_whole_days_tells_the_change_in_percent(ask: Ask, world: World) -> None:
    world.pointers.append((WIFI, flip(SUNDAY, 1, f"{TUESDAY}T02:00", pin=10)))
    world.rows.append(visits("406", f"{SUNDAY}T12:00", (32,), generation=1))

    found = report(ask, "average_stay_time")

    assert (found["previous"]["value"], found["change_percent"]) == (32 * 60, 25.0)
    assert found["complete"] is True


def test_each_visit_is_in_one_bin_of_stay_times(ask: Ask, world: World) -> None:
    stays = (1, 4, 5, 39, 40, 79, 80, 119, 120, 239, 240)
    world.rows.append(visits("406", f"{MONDAY}T12:00", stays, generation=1))

    series = report(ask, "visits_by_stay_time")["series"]

    counts = {(one["from_minutes"], one["to_minutes"]): one["value"] for one in series}
    # And the one of the world, of 40 minutes.
    assert {span: count for span, count in counts.items() if count} == {
        (0, 5): 2,
        (5, 10): 1,
        (30, 40): 1,
        (40, 60): 2,
        (60, 80): 1,
        (80, 120): 2,
        (120, 240): 2,
        (240, None): 1,
    }


def test_by_hour_of_the_week_counts_are_the_mean_of_the_hours(ask: Ask, world: World) -> None:
    for day, stays in ((16, (10,) * 6), (23, ())):
        world.pointers.append((WIFI, flip(f"2026-11-{day}", 2, f"{TUESDAY}T02:00", pin=10)))
        world.rows.append(visits("406", f"2026-11-{day}T15:00", stays, generation=2))
    for day in range(17, 23):
        world.pointers.append((WIFI, flip(f"2026-11-{day}", 2, f"{TUESDAY}T02:00", pin=10)))

    found = report(ask, "in_store_traffic_intensity", **{"from": "2026-11-16"})

    by_hour = {(one["weekday"], one["hour"]): one for one in found["series"]}
    assert (by_hour[1, 15]["value"], by_hour[1, 15]["complete"]) == (3, True)
    assert len(by_hour) == 7 * 24


@pytest.fixture
def ask_abroad(world: World, tmp_path: Path) -> Iterator[Ask]:
    """Of a store whose Monday begins on Sunday at 23:00 UTC."""
    stores = tmp_path / "stores.yaml"
    stores.write_text("406: {tz: Europe/Bratislava}", "utf-8")
    with asking(create_app(Settings(stores_file=stores), MemoryViews(world))) as function:
        yield function


@pytest.mark.parametrize(
    ("day", "statuses"),
    [
        # Windows from 09:30 to 10:30 lie in a period that begins on Sunday and ends on Monday.
        (None, "final"),
        (SUNDAY, "provisional"),
        (MONDAY, "provisional"),
        (TUESDAY, "final"),
    ],
)
def test_a_late_sighting_of_another_day_of_the_period_makes_the_window_provisional(
    ask_abroad: Ask, world: World, day: str | None, statuses: str
) -> None:
    for other in (SUNDAY, TUESDAY):
        world.pointers.append((WIFI, flip(other, 1, f"{TUESDAY}T02:00", pin=10)))
    partition = partition_number("406", Settings().partitions)
    if day is not None:
        world.master.append((WIFI, date.fromisoformat(day), partition, 11))

    assert {status for _, _, status, _ in rows(ask_abroad, "406")} == {statuses}
    window = {"family": "wifi", "store": "406", "window": f"{MONDAY}T10:00:00Z"}
    told = ask_abroad("/v1/explain", **window).json()
    assert told["dirty"] is (statuses == "provisional")


def test_a_window_is_as_final_however_far_the_question_reaches(
    ask_abroad: Ask, world: World
) -> None:
    """Records of Sunday, which has no generation: of its key period Monday's windows are too."""
    partition = partition_number("406", Settings().partitions)
    world.master.append((WIFI, date.fromisoformat(SUNDAY), partition, 11))

    for first in (f"{MONDAY}T09:30:00Z", f"{SUNDAY}T09:30:00Z"):
        span = {"from": first, "to": f"{MONDAY}T10:30:00Z", "grain": "15m", "limit": "1000"}
        told = ask_abroad("/v1/metrics/in_store_traffic", store="406", **span).json()["rows"]
        assert {row["status"] for row in told[-4:]} == {"provisional"}


def test_a_day_around_without_any_record_needs_no_generation(ask_abroad: Ask, world: World) -> None:
    assert {status for _, _, status, _ in rows(ask_abroad, "406")} == {"final"}


@pytest.mark.parametrize(("first", "status"), [("2025-10-20", 200), ("2025-10-19", 422)])
def test_a_report_takes_400_days(ask: Ask, first: str, status: int) -> None:
    answer = ask("/v1/reports/traffic_trend", store="406", **{"from": first, "to": TUESDAY})

    assert answer.status_code == status
    assert status == 200 or "at most 400 days" in answer.json()["detail"]


def test_a_report_of_days_without_any_before_them_is_refused(ask: Ask) -> None:
    """Samoa has left out 30 December 2011."""
    days = {"from": "2011-12-31", "to": "2012-01-01", "tz": "Pacific/Apia"}

    answer = ask("/v1/reports/traffic_trend", store="406", **days)

    assert (answer.status_code, "left out" in answer.json()["detail"]) == (422, True)
