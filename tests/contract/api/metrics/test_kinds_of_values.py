"""Metrics that are no sums: the least and the most, different subjects, percentiles."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from serving.storage.tables import Activity
from tally.algebra.parts import MAX_PART, Uniques
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, World, flip
from tests.support.sources.queues import QUEUES, know_queues, queued
from web.api.app import create_app

DAY, NEXT, AFTER = "2026-11-23", "2026-11-24", "2026-11-25"
TILLS, HALL = ("tills", "1"), ("hall", "1")
HOUR = {"from": f"{DAY}T10:00:00Z", "to": f"{DAY}T11:00:00Z", "grain": "1h"}
EMPTY = {"from": f"{DAY}T12:00:00Z", "to": f"{DAY}T13:00:00Z", "grain": "1h"}
MISSING = {"from": NEXT, "to": AFTER, "grain": "1d"}
NOT_SUMS = ("shortest_wait", "longest_wait", "persons_seen", "median_wait")


@pytest.fixture
def views() -> MemoryViews:
    """A day that a generation covers: waits of 40 and 8 seconds, of 8 and 300, of 20."""
    world = World(
        rows=[
            queued("367", f"{DAY}T10:00", TILLS, 40, 8, generation=1),
            queued("367", f"{DAY}T10:45", TILLS, 8, 300, generation=1),
            queued("367", f"{DAY}T10:30", HALL, 20, generation=1),
        ],
        pointers=[(QUEUES, flip(DAY, 1, f"{NEXT}T02:00", pin=10))],
    )
    world.activity = [(QUEUES, Activity("367", date(2026, 11, 23), date(2026, 11, 23)))]
    return MemoryViews(world)


@pytest.fixture
def ask(views: MemoryViews, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    know_queues(monkeypatch)
    with asking(create_app(Settings(), views)) as function:
        yield function


def rows(ask: Ask, metric: str, **asked: Any) -> list[dict[str, Any]]:
    answer = ask(f"/v1/metrics/{metric}", store="367", **asked)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("shortest_wait", 8),
        ("longest_wait", 300),
        ("persons_seen", 4),
        ("median_wait", 20),
        ("reports", 5),
        ("arrivals_by_report", 75.2),
    ],
)
def test_a_stretch_is_of_all_events_of_its_windows_and_queues(
    ask: Ask, metric: str, value: float
) -> None:
    (row,) = rows(ask, metric, **HOUR)

    assert (row["value"], row["events"], row["status"]) == (value, 5, "final")


@pytest.mark.parametrize(
    ("metric", "hall", "tills"),
    [
        ("shortest_wait", 20, 8),
        ("longest_wait", 20, 300),
        ("persons_seen", 1, 3),
        ("median_wait", 20, 8),
    ],
)
def test_a_row_of_one_queue_is_of_its_own_events(
    ask: Ask, metric: str, hall: int, tills: int
) -> None:
    found = {row["by"]["queue"]: row["value"] for row in rows(ask, metric, **HOUR, by="queue")}

    assert found == {"hall": hall, "tills": tills}


@pytest.mark.parametrize(
    ("metric", "value"),
    [("shortest_wait", None), ("longest_wait", None), ("persons_seen", 0), ("median_wait", None)],
)
def test_of_nothing_there_is_no_extreme_and_no_percentile_and_nobody_was_seen(
    ask: Ask, metric: str, value: int | None
) -> None:
    (row,) = rows(ask, metric, **EMPTY)

    assert (row["value"], row["events"], row["source"], row["status"]) == (
        value,
        0,
        "batch",
        "final",
    )


@pytest.mark.parametrize("metric", NOT_SUMS)
def test_what_no_layer_knows_is_missing_and_no_zero(ask: Ask, metric: str) -> None:
    (row,) = rows(ask, metric, **MISSING)

    assert (row["value"], row["events"], row["source"]) == (None, None, "missing")


def test_few_different_subjects_are_counted_exactly_and_many_with_their_standard_error(
    ask: Ask, views: MemoryViews
) -> None:
    (few,) = rows(ask, "persons_seen", **HOUR)
    many = [number * 982_451_653**2 % MAX_PART for number in range(1, 5_001)]
    views.world.rows.append(queued("367", f"{DAY}T10:15", TILLS, *many, generation=1))

    (found,) = rows(ask, "persons_seen", **HOUR)

    assert (few["value"], few["error"]) == (4, 0)
    assert found["error"] == round((Uniques.SKETCH_SIZE - 2) ** -0.5, 4) == 0.0313
    assert isinstance(found["value"], int)
    assert abs(found["value"] / 5_004 - 1) < 3 * found["error"]


def test_a_percentile_says_how_much_larger_the_true_one_may_be(
    ask: Ask, views: MemoryViews
) -> None:
    (small,) = rows(ask, "median_wait", **HOUR)
    more = queued("367", f"{DAY}T10:15", TILLS, *[1_000] * 9, generation=1)
    views.world.rows.append(more)

    (large,) = rows(ask, "median_wait", **HOUR)

    assert (small["value"], small["error"]) == (20, 0)
    assert (large["value"], large["error"]) == (992, 0.0625)


@pytest.mark.parametrize("metric", ["arrivals", "shortest_wait", "longest_wait"])
def test_what_is_exact_has_no_error(ask: Ask, metric: str) -> None:
    (row,) = rows(ask, metric, **HOUR)

    assert "error" not in row


def test_the_catalogue_says_how_far_an_estimate_may_be_off(ask: Ask) -> None:
    listed = {one["id"]: one for one in ask("/v1/metrics").json()["metrics"]}

    assert listed["persons_seen"]["kind"] == "uniques"
    assert listed["persons_seen"]["error"] == (
        "standard error 3.1 % of the value; exact below 1,024"
    )
    assert listed["median_wait"]["error"] == (
        "the true one is at most 6.25 % larger; exact below 32"
    )
    exact = ("revenue", "conversion", "longest_wait")
    assert [one for one in exact if "error" in listed[one]] == []


def test_an_explanation_shows_the_parts_as_they_are_stored(ask: Ask) -> None:
    body = ask("/v1/explain", store="367", window=f"{DAY}T10:00:00Z", family="queues").json()

    assert body["served"]["rows"][0] == {
        "queue": "tills",
        "desk": "1",
        "arrived": 48,
        "reports": 2,
        "shortest": 8,
        "longest": 40,
        "phones": [8, 40],
        "waits": [[8, 1], [40, 1]],
    }
