"""With TALLY_PRIVACY_SMALLEST_CELL set, what few devices make is withheld wherever it shows."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, visits
from tests.support.serving.small_cells import DAY, NEXT, STORE, Counts, world_of
from web.api.app import create_app

# 10:30 to 12:00 in quarter hours: the first hour has 3, the second 38.
BUSY = {
    (1, "fixed"): Counts(visits=3, passes=12, bounces=1),
    (2, "fixed"): Counts(visits=9, passes=30, bounces=4),
    (3, "fixed"): Counts(visits=14, bounces=3, returns=2),
    (4, "random_associated"): Counts(visits=15, bounces=4),
}
BEFORE = "2026-11-22"


@pytest.fixture
def ask() -> Iterator[Ask]:
    views = MemoryViews(world_of(BUSY, (BEFORE, DAY)))
    with asking(create_app(Settings(privacy_smallest_cell=10), views)) as function:
        yield function


def rows(ask: Ask, metric: str, **asked: str) -> list[dict[str, Any]]:
    span = {"from": f"{DAY}T10:00:00Z", "to": f"{DAY}T13:00:00Z", "grain": "1h"}
    answer = ask(f"/v1/metrics/{metric}", store=STORE, **span | asked)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def values(ask: Ask, metric: str, **asked: str) -> list[Any]:
    return [row["value"] for row in rows(ask, metric, **asked)]


def test_an_hour_of_few_is_withheld_and_so_is_the_one_it_could_be_reckoned_from(ask: Ask) -> None:
    assert values(ask, "in_store_traffic") == [None, None, 0]
    assert values(ask, "in_store_traffic", **{"from": DAY, "to": NEXT, "grain": "1d"}) == [41]


def test_a_withheld_row_has_no_number_and_says_so(ask: Ask) -> None:
    hidden, _, told = rows(ask, "average_stay")

    assert hidden == {
        "start": f"{DAY}T10:00:00Z",
        "end": f"{DAY}T11:00:00Z",
        "value": None,
        "events": None,
        "source": "mixed",
        "status": "final",
        "complete": True,
        "numerator": None,
        "denominator": None,
        "suppressed": True,
    }
    assert (told["suppressed"], told["denominator"], told["events"]) == (False, 0, None)


def test_a_ratio_is_withheld_where_either_side_is(ask: Ask) -> None:
    assert values(ask, "outside_traffic") == [12, 30, 0]
    assert values(ask, "wifi_capture_rate_of_passers") == [None, None, None]


def test_shares_of_the_visits_are_told_by_whole_days_of_which_none_is_few(ask: Ask) -> None:
    day = {"from": DAY, "to": NEXT, "grain": "1d"}

    assert values(ask, "bounce_rate") == [None, None, None]
    assert values(ask, "bounce_rate", **day) == [round(12 / 41, 6)]
    # Two came back, which is few; and so would visits without different devices tell.
    assert values(ask, "returning_visits", **day) == values(ask, "unique_devices", **day) == [None]


def test_different_devices_are_told_of_a_day_and_of_no_two_together() -> None:
    monday = date(2026, 11, 16)
    days = [str(monday + timedelta(days=more)) for more in range(7)]
    views = MemoryViews(world_of({(1, "fixed"): Counts(visits=30)}, days))
    week = {"from": days[0], "to": DAY}

    with asking(create_app(Settings(privacy_smallest_cell=10), views)) as ask:
        assert values(ask, "unique_devices", **week, grain="1d") == [30] * 7
        # Less those of each day they are who came on both.
        assert values(ask, "unique_devices", **week, grain="1w") == [None]
        assert values(ask, "in_store_traffic", **week, grain="1w") == [7 * 30]


def test_which_classes_came_in_a_quarter_hour_is_not_told_by_its_rows(ask: Ask) -> None:
    # So few rows that those which are noted of the day are left out: the stretch's own remain.
    asked = {"from": f"{DAY}T11:00:00Z", "to": f"{DAY}T11:15:00Z", "by": "mac_class", "limit": "1"}

    answer = ask("/v1/metrics/in_store_traffic", store=STORE, **asked)

    assert answer.status_code == 422 and "more than limit=1 rows" in answer.json()["detail"]


def test_classes_are_told_by_whole_days_and_the_others_not_listed(ask: Ask) -> None:
    day = {"from": DAY, "to": NEXT, "grain": "1d"}

    assert values(ask, "in_store_traffic", by="mac_class", **day) == [26, 15]
    # A quarter hour's rows are those of the day: which of them came then is not told either.
    quarter = {"from": f"{DAY}T10:00:00Z", "to": f"{DAY}T10:15:00Z", "grain": "15m"}
    assert values(ask, "in_store_traffic", by="mac_class", **quarter) == [None, None]


def test_another_zone_and_other_ends_are_told_where_blocks_end(ask: Ask) -> None:
    zone = {"tz": "Asia/Kathmandu"}
    hours = {"from": f"{DAY}T10:15:00Z", "to": f"{DAY}T13:15:00Z"}

    assert values(ask, "in_store_traffic", **zone, **hours) == [None, None, 0]
    # Its days begin at 18:15 UTC, when nobody was there.
    assert values(ask, "in_store_traffic", **zone, **{"from": DAY, "to": NEXT, "grain": "1d"}) == [
        41
    ]


def test_a_day_that_is_not_settled_is_withheld_whole(ask: Ask) -> None:
    span = {"from": "2026-11-25", "to": "2026-11-26", "grain": "1d"}
    (row,) = rows(ask, "in_store_traffic", **span)

    assert (row["value"], row["suppressed"], row["complete"]) == (None, True, False)


def test_other_families_are_told_as_ever(ask: Ask) -> None:
    (row,) = rows(ask, "visitors_in", **{"from": DAY, "to": NEXT, "grain": "1d"})

    assert "suppressed" not in row


def test_no_page_of_an_answer_tells_more_than_the_whole(ask: Ask) -> None:
    first = ask(
        "/v1/metrics/in_store_traffic",
        store=STORE,
        limit="42",
        **{"from": DAY, "to": NEXT, "grain": "15m"},
    ).json()

    assert {row["suppressed"] for row in first["rows"][:40]} == {False}
    assert {row["suppressed"] for row in first["rows"][40:]} == {True}
    assert all(row["suppressed"] for row in ask(first["next"]).json()["rows"][:6])


def test_a_report_says_why_it_withholds_what(ask: Ask) -> None:
    span = {"store": STORE, "from": DAY, "to": NEXT}
    told = ask("/v1/reports/traffic_trend", **span).json()
    hours = ask("/v1/reports/in_store_traffic_intensity", **span).json()
    bins = ask("/v1/reports/visits_by_stay_time", **span).json()

    assert (told["value"], told["previous"]["value"], told["change_percent"]) == (41, 41, 0.0)
    assert told["series"][0]["value"] == 41 and "suppressed" not in told
    hidden = [one["hour"] for one in hours["series"] if "suppressed" in one]
    assert hidden == [10, 11] and hours["series"][10]["value"] is None
    assert hours["series"][10]["suppressed"] == "too few devices to tell"
    assert [one["value"] for one in bins["series"]][:4] == [0, 0, 41, 0]


def test_bins_of_stay_times_are_told_where_none_is_few() -> None:
    span = {"store": STORE, "from": DAY, "to": NEXT}
    world = world_of({}, (BEFORE, DAY))
    world.rows = [visits(STORE, f"{DAY}T10:00", (10,) * 30 + (50,) * 3, generation=1)]

    with asking(create_app(Settings(privacy_smallest_cell=10), MemoryViews(world))) as ask_few:
        found = ask_few("/v1/reports/visits_by_stay_time", **span).json()

    assert found["value"] == 33 and "suppressed" not in found
    told = {(one["value"], one.get("suppressed")) for one in found["series"]}
    assert told == {(None, "too few devices to tell")}


def test_a_report_of_a_day_that_is_not_settled_says_when_it_will_tell(ask: Ask) -> None:
    found = ask("/v1/reports/average_stay_time", store=STORE, **{"from": DAY, "to": "2026-11-25"})

    later = found.json()
    assert later["value"] is None and "settled" in later["suppressed"]
    assert later["beside"]["value"] is None and "settled" in later["beside"]["suppressed"]
    assert [one["value"] for one in later["series"]] == [600, None]


def test_an_explanation_holds_nothing_of_devices(ask: Ask) -> None:
    window = f"{DAY}T10:45:00Z"
    empty, found = (
        ask("/v1/explain", store=STORE, family="wifi", window=at).json()
        for at in (f"{DAY}T03:00:00Z", window)
    )

    assert (found["served"]["rows"], found["served"]["events"]) == (None, None)
    assert (found["batch"], found["speed"]) == (None, None)
    # Nor is it told from that of a quarter hour in which nobody was there.
    assert {**found, "window": empty["window"]} == empty
