"""What a number is worth whose sensors were silent: coverage by sensor and window."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from runtime.registry.sources import TRAFFIC
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews
from tests.support.twin.silent_sensors import HALF, OF_SPEED, STORES, SUNDAY, WHOLE, silent_world
from web.api.app import create_app


def asked(tmp_path: Path, **settings: Any) -> AbstractContextManager[Ask]:
    file = tmp_path / "stores.yaml"
    file.write_text(STORES, "utf-8")
    return asking(create_app(Settings(stores_file=file, **settings), MemoryViews(silent_world())))


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    with asked(tmp_path) as function:
        yield function


def day_of(ask: Ask, metric: str, day: str, store: str = "367", grain: str = "1d") -> Any:
    after = str(date.fromordinal(date.fromisoformat(day).toordinal() + 1))
    span = {"store": store, "from": day, "to": after, "grain": grain}
    answer = ask(f"/v1/metrics/{metric}", **span)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_day_that_all_sensors_saw_is_complete(ask: Ask) -> None:
    answer = day_of(ask, "visitors_in", WHOLE)

    # Nobody is there for more than the window, whatever it says twice.
    (row,) = answer["rows"]
    assert (row["value"], row["coverage"], row["estimated"], row["complete"]) == (
        80,
        1,
        False,
        True,
    )
    assert (answer["complete"], answer["coverage"]) == (True, 1)


def test_where_a_sensor_was_silent_a_final_number_is_not_complete(ask: Ask) -> None:
    answer = day_of(ask, "visitors_in", HALF)

    # Of four hours expected three: the second door is silent from 9 to 10.
    (row,) = answer["rows"]
    assert (row["value"], row["status"]) == (80, "final")
    assert (row["coverage"], row["estimated"], row["complete"]) == (0.75, True, False)
    assert (answer["complete"], answer["coverage"]) == (False, 0.75)


def test_one_silent_hour_is_not_made_good_by_the_others(tmp_path: Path) -> None:
    with asked(tmp_path, coverage_threshold=0.4) as ask:
        by_day, by_hour = (day_of(ask, "visitors_in", HALF, grain=one) for one in ("1d", "1h"))

    assert by_day["complete"] and not by_hour["complete"]
    assert [row.get("coverage") for row in by_hour["rows"][8:11]] == [1, 0.5, None]
    assert [row["complete"] for row in by_hour["rows"][8:11]] == [True, False, True]


def test_below_the_threshold_a_number_is_withheld_where_the_setting_says_so(tmp_path: Path) -> None:
    with asked(tmp_path, coverage_below="withhold") as ask:
        (row,) = day_of(ask, "conversion", HALF)["rows"]
        (whole,) = day_of(ask, "visitors_in", WHOLE)["rows"]

    assert (row["value"], row["numerator"], row["denominator"]) == (None, None, None)
    assert (row["withheld"], row["coverage"], row["complete"]) == ("coverage", 0.75, False)
    assert whole["value"] == 80


def test_a_closed_day_expects_nobody(ask: Ask) -> None:
    (row,) = day_of(ask, "visitors_in", SUNDAY)["rows"]

    assert (row["value"], row["complete"]) == (0, True)
    assert "coverage" not in row


def test_without_hours_a_sensor_is_expected_at_all_times(ask: Ask) -> None:
    (row,) = day_of(ask, "visitors_in", WHOLE, store="406")["rows"]

    assert (row["coverage"], row["estimated"], row["complete"]) == (0.0833, True, False)


def test_of_tills_no_coverage_is_said(ask: Ask) -> None:
    (row,) = day_of(ask, "revenue", WHOLE)["rows"]

    assert not {"coverage", "estimated"} & {*row}
    assert row["complete"]


@pytest.mark.parametrize("metric", ["visitors_in", "in_store_traffic", "conversion"])
@pytest.mark.parametrize("grain", ["1d", "1h", "15m"])
def test_store_that_never_had_a_sensor_has_no_number_and_no_zero(
    ask: Ask, metric: str, grain: str
) -> None:
    answer = day_of(ask, metric, WHOLE, store="500", grain=grain)

    assert {row["value"] for row in answer["rows"]} == {None}
    assert {(row["source"], row["status"], row["complete"]) for row in answer["rows"]} == {
        ("missing", "not_measured", False)
    }
    assert (answer["status"], answer["complete"]) == ("not_measured", False)


def test_store_whose_counter_was_there_once_has_zeros_of_covered_days(tmp_path: Path) -> None:
    world = silent_world()
    world.activity.append((TRAFFIC, Activity("500", date(2026, 1, 1), date(2026, 1, 2))))
    with asking(create_app(Settings(), MemoryViews(world))) as ask:
        (row,) = day_of(ask, "visitors_in", WHOLE, store="500")["rows"]

    assert (row["value"], row["status"], row["complete"]) == (0, "final", True)


def test_not_measured_and_measured_stores_together_are_not_complete(ask: Ask) -> None:
    span = {"from": WHOLE, "to": HALF, "grain": "1d", "store": "367,500"}
    answer = ask("/v1/metrics/visitors_in", **span).json()

    assert {one["store"]: one["rows"][0]["status"] for one in answer["series"]} == {
        "367": "final",
        "500": "not_measured",
    }
    assert (answer["status"], answer["complete"]) == ("provisional", False)


def test_access_points_that_say_nothing_leave_visits_estimated(ask: Ask) -> None:
    (row,) = day_of(ask, "in_store_traffic", WHOLE)["rows"]

    assert (row["value"], row["coverage"], row["complete"]) == (2, 0, False)


def test_what_speed_alone_knows_has_its_coverage_too(ask: Ask) -> None:
    found = day_of(ask, "visitors_in", OF_SPEED, grain="1h")["rows"][8:10]

    assert [(row["source"], row["coverage"]) for row in found] == [("speed", 1), ("speed", 0.5)]
    assert not any(row["complete"] for row in found)


def test_the_silent_sensor_is_named_with_its_time(ask: Ask) -> None:
    span = {"from": WHOLE, "to": SUNDAY, "grain": "1h"}
    answer = ask("/v1/stores/367/sensors", **span).json()

    found = {(one["family"], one["sensor"]): one for one in answer["sensors"]}
    assert [(*name, one["coverage"]) for name, one in found.items()] == [
        ("traffic", "door_1", 1),
        ("traffic", "door_2", 0.5),
        ("wifi", "ap-1", 0),
        ("wifi", "ap-2", 0),
    ]
    silent = [row for row in found["traffic", "door_2"]["rows"] if row["coverage"] == 0]
    assert silent == [
        {
            "start": f"{HALF}T09:00:00Z",
            "end": f"{HALF}T10:00:00Z",
            "expected_seconds": 3600,
            "observed_seconds": 0,
            "coverage": 0,
        }
    ]
    assert answer["threshold"] == 0.9


def test_too_many_stretches_of_sensors_are_refused(ask: Ask) -> None:
    span = {"from": "2026-01-01", "to": SUNDAY, "grain": "15m"}
    answer = ask("/v1/stores/367/sensors", **span)

    assert answer.status_code == 422
    assert "ask for less time, or for a coarser grain" in answer.json()["detail"]


def test_a_report_says_which_sensors_were_silent(ask: Ask) -> None:
    span = {"store": "367", "from": HALF, "to": SUNDAY}
    answer = ask("/v1/reports/productivity_by_hour_of_week", **span).json()

    assert (answer["coverage"], answer["complete"]) == (0.75, False)


def test_withheld_bins_of_stays_are_not_told_either(tmp_path: Path) -> None:
    with asked(tmp_path, coverage_below="withhold") as ask:
        span = {"store": "367", "from": WHOLE, "to": HALF}
        answer = ask("/v1/reports/visits_by_stay_time", **span).json()

    assert answer["value"] is None
    assert {one["value"] for one in answer["series"]} == {None}


def test_days_and_hours_of_silent_sensors_are_not_complete(ask: Ask) -> None:
    span = {"store": "367", "from": WHOLE, "to": HALF}
    trend = ask("/v1/reports/traffic_trend", **span).json()
    hours = ask("/v1/reports/in_store_traffic_intensity", **span).json()

    assert [one["complete"] for one in trend["series"]] == [False]
    assert not any(one["complete"] for one in hours["series"] if one["hour"] in (8, 9))


def test_level_has_the_coverage_since_its_day_began_and_none_of_the_whole(ask: Ask) -> None:
    answer = day_of(ask, "occupancy", HALF, grain="1h")

    assert [row["coverage"] for row in answer["rows"][8:11]] == [1, 0.75, 0.75]
    assert "coverage" not in answer and not answer["complete"]


def test_with_small_cells_kept_nothing_is_said_of_access_points(tmp_path: Path) -> None:
    with asked(tmp_path, privacy_smallest_cell=10) as ask:
        (row,) = day_of(ask, "in_store_traffic", WHOLE)["rows"]
        span = {"from": WHOLE, "to": SUNDAY}
        families = {
            one["family"] for one in ask("/v1/stores/367/sensors", **span).json()["sensors"]
        }

    assert (row["suppressed"], row["source"]) == (True, "mixed")
    assert "coverage" not in row and families == {"traffic"}


def test_access_points_that_were_replaced_are_expected_until_then(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    changes = f"{{{HALF}: {{access_points: [ap-3]}}}}"
    file.write_text(f"367: {{access_points: [ap-1, ap-3], changes: {changes}}}", "utf-8")
    with asking(create_app(Settings(stores_file=file), MemoryViews(silent_world()))) as ask:
        span = {"from": WHOLE, "to": SUNDAY}
        found = ask("/v1/stores/367/sensors", **span).json()["sensors"]

    expected = {one["sensor"]: [row["expected_seconds"] for row in one["rows"]] for one in found}
    assert expected == {"ap-1": [86_400, 0], "ap-3": [86_400, 86_400]}


def test_hours_of_which_nobody_has_told_anything_are_silence(ask: Ask) -> None:
    span = {"from": OF_SPEED, "to": "2026-11-25", "grain": "1d"}
    found = ask("/v1/stores/367/sensors", **span).json()["sensors"]

    # On the second day neither layer has a row of a door, and it is over.
    silent = {one["sensor"]: one["rows"][1] for one in found if one["family"] == "traffic"}
    assert {row["expected_seconds"] for row in silent.values()} == {7_200}
    assert {row["coverage"] for row in silent.values()} == {0}
