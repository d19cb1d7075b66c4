"""Answers by a dimension that is no currency, over rows in memory; and very many values of one."""

import time
from collections.abc import Iterator

import pytest

from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.questions.dimension_suite import (
    BOTH_DAYS,
    DAY,
    NEXT,
    PATH,
    DimensionSuite,
    know_dimensions,
    of_dimensions,
    pages,
    waited,
)
from tests.support.serving.serving_world import MemoryViews
from tests.support.stack.nominal_processor import slowness
from web.api.app import create_app

MANY = 10_000
ONE_DAY = {**BOTH_DAYS, "to": NEXT}


@pytest.fixture
def views() -> MemoryViews:
    return MemoryViews(of_dimensions())


@pytest.fixture
def ask(views: MemoryViews, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    know_dimensions(monkeypatch)
    with asking(create_app(Settings(), views)) as function:
        yield function


class TestInMemory(DimensionSuite):
    """Every test of the suite, over rows in memory."""


def have_queues(views: MemoryViews, count: int) -> None:
    views.world.rows = [
        waited("367", f"{DAY}T10:00", (f"queue-{number:05}", "a"), number)
        for number in range(count)
    ]


def test_ten_thousand_queues_are_refused_by_an_ordinary_page_and_answered_by_the_largest(
    ask: Ask, views: MemoryViews
) -> None:
    have_queues(views, MANY)
    started = time.process_time()
    refused = ask(PATH, **ONE_DAY, by="queue")
    (rows,) = pages(ask, **ONE_DAY, by="queue", limit=str(MANY))

    seconds = time.process_time() - started
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "by")
    assert [row["value"] for row in rows] == [*range(MANY)]
    # One look at each row of the cell, and not one for each row of the answer.
    assert seconds < 5 * slowness(), seconds


def test_more_queues_than_any_page_has_rows_are_refused(ask: Ask, views: MemoryViews) -> None:
    have_queues(views, MANY + 1)

    answer = ask(PATH, **ONE_DAY, by="queue", limit=str(MANY))

    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (422, "by")
    # There is no higher limit to ask with.
    assert error["message"].endswith(
        "; ask by fewer dimensions, for fewer days, or for one stretch at a time"
    )
    assert ask(PATH, **ONE_DAY).json()["rows"][0]["value"] == sum(range(MANY + 1))


def test_one_stretch_of_very_many_queues_has_those_that_it_has_rows_of(
    ask: Ask, views: MemoryViews
) -> None:
    have_queues(views, MANY + 1)
    views.world.rows.append(waited("367", f"{DAY}T10:15", ("hall", "a"), 5))
    quarter = {"from": f"{DAY}T10:15:00Z", "to": f"{DAY}T10:30:00Z", "grain": "15m"}

    (rows,) = pages(ask, store="367", **quarter, by="queue")

    assert [(row["by"]["queue"], row["value"]) for row in rows] == [("hall", 5)]


def test_more_values_than_one_question_may_list_are_refused(
    ask: Ask, views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_queues(views, 11)
    monkeypatch.setattr("serving.cells.dimensions.MAX_VALUES", 10)

    (error,) = ask(PATH, **BOTH_DAYS, by="queue").json()["errors"]

    assert error["message"].startswith("by: the stores have more than 10 values of queue; ask")


def test_page_that_values_which_no_register_knows_make_too_large_is_refused(
    ask: Ask, views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views.world, "axis_values", lambda *_: {})
    monkeypatch.setattr("serving.cells.dimensions.MAX_UNREGISTERED", 0)

    (error,) = ask(PATH, **BOTH_DAYS, by="queue", limit="1").json()["errors"]

    assert (error["field"], error["message"][:38]) == (
        "limit",
        "limit: the page would have 2 rows, of ",
    )


def test_queue_that_no_register_knows_yet_is_shown_where_it_has_rows(
    ask: Ask, views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views.world, "axis_values", lambda *_: {})

    rows = [row for page in pages(ask, **BOTH_DAYS, by="queue", limit="1") for row in page]

    assert [(row["start"][:10], row["by"]["queue"]) for row in rows] == [
        (DAY, "returns"),
        (DAY, "tills"),
        (NEXT, "hall"),
        (NEXT, "tills"),
    ]


def test_store_without_events_has_one_row_of_no_queue(ask: Ask) -> None:
    (page,) = pages(ask, **{**ONE_DAY, "from": "2026-10-01", "to": "2026-10-02"}, by="queue")

    assert [(row["by"], row["source"]) for row in page] == [({"queue": None}, "missing")]
