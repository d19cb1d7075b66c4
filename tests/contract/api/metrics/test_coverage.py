"""What an answer may claim: nothing before coverage begins, nothing final while the master is
behind or a till counts anew."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from runtime.records.gaps import AcceptedGap
from runtime.registry.sources import SALES
from serving.storage.tables import Activity, TillFinding
from tally.config.settings import Settings
from tests.support.questions.api_suite import FINAL, PROVISIONAL, Ask, asking, window
from tests.support.serving.serving_world import MemoryViews, World, at, flip, sale
from web.api.app import create_app

DAY, NEXT = "2026-11-21", "2026-11-22"
MISSING = {"value": None, "events": None, "source": "missing", **PROVISIONAL}
ZERO = {"value": 0, "events": 0, "source": "batch"}
ASKED = {"store": "367", "from": DAY, "to": NEXT}


def world() -> World:
    """The family's first record arrived at 9:50; its day is covered from 10:00, the day before
    (a wrong clock) not at all."""
    made = World(
        rows=[
            sale("367", start, 1, 500, generation=3)
            for start in (f"{DAY}T09:45", f"{DAY}T10:00", "2026-02-01T08:00")
        ],
        pointers=[
            (SALES, flip(DAY, 3, f"{NEXT}T01:00", pin=9, covered_from=f"{DAY}T10:00")),
            (
                SALES,
                flip(
                    "2026-02-01",
                    3,
                    f"{NEXT}T01:00",
                    pin=9,
                    covered_from="2026-02-01T00:00",
                    covered_until="2026-02-01T00:00",
                ),
            ),
        ],
    )
    made.activity = [
        (SALES, Activity(store, date(2026, 2, 1), date(2026, 11, 21))) for store in ("367", "406")
    ]
    return made


@pytest.fixture
def views() -> MemoryViews:
    return MemoryViews(world())


@pytest.fixture
def ask(views: MemoryViews) -> Iterator[Ask]:
    with asking(create_app(Settings(), views)) as function:
        yield function


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (f"{DAY}T09:30", MISSING),
        (f"{DAY}T09:45", {"value": 500, "events": 1, "source": "batch", **PROVISIONAL}),
        (f"{DAY}T10:00", {"value": 500, "events": 1, "source": "batch", **FINAL}),
        (f"{DAY}T10:15", {**ZERO, **FINAL}),
        (f"{DAY}T23:45", {**ZERO, **FINAL}),
        ("2026-02-01T08:00", {"value": 500, "events": 1, "source": "batch", **PROVISIONAL}),
        ("2026-02-01T08:15", MISSING),
        ("2026-02-02T08:00", MISSING),
    ],
)
def test_no_zero_is_claimed_before_coverage_begins(
    ask: Ask, start: str, expected: dict[str, Any]
) -> None:
    found = window(ask, "revenue", start) if not start.endswith("23:45") else last_of_day(ask)
    assert found == expected


def last_of_day(ask: Ask) -> dict[str, Any]:
    row = ask("/v1/metrics/revenue", **{**ASKED, "from": f"{DAY}T23:45:00Z"}).json()["rows"][0]
    return {name: value for name, value in row.items() if name not in ("start", "end")}


@pytest.mark.parametrize(
    ("seconds", "status"),
    [
        (0, "final"),
        (3590, "final"),
        (3700, "provisional"),
        (10**8, "provisional"),
        (None, "provisional"),
    ],
)
def test_nothing_is_final_once_the_master_has_been_behind_for_longer_than_the_patience(
    ask: Ask, views: MemoryViews, seconds: int | None, status: str
) -> None:
    since = (
        None
        if seconds is None
        else datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=seconds)
    )
    views.world.master_current = since
    body = ask("/v1/metrics/revenue", **{**ASKED, "from": f"{DAY}T10:00:00Z"}).json()
    assert {row["status"] for row in body["rows"]} == {status}
    behind = "1970-01-01T00:00:00Z" if since is None else since.isoformat().replace("+00:00", "Z")
    assert (body["complete"], body["master_behind_since"]) == (
        (True, None) if status == "final" else (False, behind)
    )


def test_master_that_is_behind_is_named_by_explain_and_readiness(
    ask: Ask, views: MemoryViews
) -> None:
    views.world.master_current = at("2026-11-21T00:00")
    ready = ask("/readyz").json()
    assert (ready["ready"], ready["checks"]["master"]["ok"]) == (True, False)
    (reason,) = ask("/v1/explain", store="367", window=f"{DAY}T10:00:00Z").json()[
        "not_final_because"
    ]
    assert reason.startswith("the master ingest last had read everything at 2026-11-21T00:00:00Z")


def test_window_that_the_speed_layer_has_counted_further_says_why_it_is_not_final(
    ask: Ask, views: MemoryViews
) -> None:
    views.world.rows.append(sale("367", f"{DAY}T10:00", 2, 900))

    served = window(ask, "revenue", f"{DAY}T10:00")
    explained = ask("/v1/explain", store="367", window=f"{DAY}T10:00:00Z").json()

    assert (served["source"], served["status"]) == ("speed", "provisional")
    assert explained["not_final_because"] == [
        "the speed layer has counted more than the generation"
    ]


def test_till_whose_numbers_begin_again_keeps_its_stores_day_from_being_final(
    ask: Ask, views: MemoryViews
) -> None:
    views.world.findings = [(SALES, "367", TillFinding(date(2026, 11, 21), "4", 200, 40))]
    asked = {**ASKED, "from": f"{DAY}T10:00:00Z"}
    body = ask("/v1/metrics/revenue", **asked).json()
    assert {row["status"] for row in body["rows"]} == {"provisional"}
    assert (body["complete"], body["numbering"]) == (
        False,
        [{"store": "367", "till": "4", "day": DAY, "conflicts": 40, "records": 200}],
    )
    (reason,) = ask("/v1/explain", store="367", window=f"{DAY}T10:00:00Z").json()[
        "not_final_because"
    ]
    assert "till 4: 40 of its 200 records" in reason
    assert "numbering: daily" in reason
    other = ask("/v1/metrics/revenue", **{**asked, "store": "406"}).json()
    assert (other["complete"], other["numbering"]) == (True, [])


def gap(topic: str, partition: int, first: str, last: str) -> AcceptedGap:
    return AcceptedGap(topic, partition, 7, 12, at(first), at(last), at(last), "deleted by hand")


@pytest.mark.parametrize(
    ("lost", "is_named"),
    [
        (gap("posTransactionTopic", 3, f"{DAY}T12:00", f"{DAY}T13:00"), True),
        (gap("posTransactionTopic", 3, "2026-11-20T22:00", "2026-11-20T23:54"), False),
        (gap("posTransactionTopic", 3, "2026-11-20T22:00", "2026-11-20T23:56"), True),
        (gap("posTransactionTopic", 3, f"{NEXT}T00:00", f"{NEXT}T01:00"), False),
        (gap("sales", 1, f"{DAY}T12:00", f"{DAY}T13:00"), True),
        (gap("sales", 0, f"{DAY}T12:00", f"{DAY}T13:00"), False),
        (gap("raw-traffic", 1, f"{DAY}T12:00", f"{DAY}T13:00"), False),
    ],
)
def test_gap_that_the_asked_span_may_lack_records_of_is_named(
    ask: Ask, views: MemoryViews, lost: AcceptedGap, is_named: bool
) -> None:
    views.world.gaps = [lost]
    body = ask("/v1/metrics/revenue", **ASKED).json()
    assert [
        (one["topic"], one["from_offset"], one["until_offset"], one["reason"])
        for one in body["gaps"]
    ] == ([(lost.topic, 7, 12, "deleted by hand")] if is_named else [])


def test_as_of_answers_alike_whatever_the_layers_learn_since(ask: Ask, views: MemoryViews) -> None:
    asked = {**ASKED, "as_of": f"{NEXT}T02:00:00Z"}
    before = ask("/v1/metrics/revenue", **asked).json()
    views.world.master = [(SALES, date(2026, 11, 21), 1, 10_000)]
    views.world.master_current = None
    views.world.findings = [(SALES, "367", TillFinding(date(2026, 11, 21), "4", 200, 40))]
    views.world.pointers.append(
        (SALES, replace(views.world.pointers[0][1], generation=4, flipped_at=at(f"{NEXT}T03:00")))
    )
    views.world.rows.append(sale("367", f"{DAY}T10:00", 2, 900, generation=4))
    assert ask("/v1/metrics/revenue", **asked).json() == before
    assert ask("/v1/metrics/revenue", **ASKED).json() != before


@pytest.mark.parametrize(
    "instant",
    [
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
        "1970-06-01T00:00:00Z",
        "2017-09-19",
        "x" * 900,
    ],
)
def test_explanation_of_an_impossible_window_is_refused(ask: Ask, instant: str) -> None:
    answer = ask("/v1/explain", store="367", window=instant)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "window")
