"""Pages of an answer: stores that appear and generations that come between them; one currency
for the whole question."""

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import httpx
import pytest

from runtime.registry.sources import SALES, TRAFFIC
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, Stored, World, counted, flip, sale
from web.api.app import create_app

PATH = "/v1/metrics/revenue"
DAY, NEXT, AFTER = "2017-09-19", "2017-09-20", "2017-09-21"
TODAY = {"store": "all", "from": DAY, "to": NEXT, "grain": "1d"}


def world(*rows: Stored) -> World:
    """Rows of generation 1, which covers two days."""
    made = World(
        rows=list(rows),
        pointers=[(SALES, flip(day, 1, f"{AFTER}T02:00", pin=10)) for day in (DAY, NEXT)],
    )
    made.activity = [
        (SALES, Activity(store, date(2017, 9, 19), date(2017, 9, 20)))
        for store in sorted({row.store_id for row in rows})
    ]
    return made


def sold(store: str, gross: int, **more: Any) -> Stored:
    return sale(
        store,
        more.pop("start", f"{DAY}T10:00"),
        1,
        gross,
        generation=more.pop("generation", 1),
        **more,
    )


@pytest.fixture
def views() -> MemoryViews:
    return MemoryViews(world(sold("200", 20), sold("300", 30)))


@pytest.fixture
def ask(views: MemoryViews) -> Iterator[Ask]:
    with asking(create_app(Settings(), views)) as function:
        yield function


def pages(ask: Ask, between: Callable[[], None], **asked: Any) -> list[httpx.Response]:
    """Every answer of a question, with something that happens after the first page."""
    answers = [ask(PATH, **asked)]
    between()
    while answers[-1].status_code == 200 and (address := answers[-1].json()["next"]):
        answers.append(ask(address))
    return answers


def stores(answers: list[httpx.Response]) -> list[str]:
    return [series["store"] for answer in answers for series in answer.json()["series"]]


def arrives(views: MemoryViews, row: Stored) -> None:
    views.world.rows.append(row)
    views.world.activity.append(
        (SALES, Activity(row.store_id, date(2017, 9, 19), date(2017, 9, 19)))
    )


@pytest.mark.parametrize(
    ("appearing", "expected"),
    [("100", ["200", "300"]), ("250", ["200", "250", "300"]), ("400", ["200", "300", "400"])],
)
def test_store_that_appears_between_pages_makes_none_repeat_and_none_skip(
    ask: Ask, views: MemoryViews, appearing: str, expected: list[str]
) -> None:
    found = pages(ask, lambda: arrives(views, sold(appearing, 1)), **TODAY, limit="1")
    assert stores(found) == expected


@pytest.mark.parametrize("limit", ["1", "7", "96", "100"])
def test_rows_of_all_pages_are_the_rows_of_one(ask: Ask, limit: str) -> None:
    asked = {**TODAY, "grain": "15m"}
    whole = [
        (one["store"], row) for one in ask(PATH, **asked).json()["series"] for row in one["rows"]
    ]
    found = pages(ask, lambda: None, **asked, limit=limit)
    assert [
        (one["store"], row)
        for page in found
        for one in page.json()["series"]
        for row in one["rows"]
    ] == whole


def flips(views: MemoryViews, day: str) -> None:
    views.world.pointers.append((SALES, flip(day, 2, f"{AFTER}T03:00", pin=20)))
    views.world.rows += [
        sold(store, 99, generation=2, start=f"{day}T10:00") for store in ("200", "300")
    ]


def test_flip_between_pages_is_said_with_the_address_to_begin_anew_at(
    ask: Ask, views: MemoryViews
) -> None:
    first, last = pages(ask, lambda: flips(views, DAY), **TODAY, limit="1")
    body = last.json()
    assert (first.status_code, last.status_code, last.headers["content-type"]) == (
        200,
        409,
        "application/problem+json",
    )
    assert "after=" not in body["next"]
    assert [series["rows"][0]["value"] for series in ask(body["next"]).json()["series"]] == [99]


def test_flip_of_a_later_days_page_is_said_too(ask: Ask, views: MemoryViews) -> None:
    asked = {**TODAY, "store": "200", "to": AFTER, "limit": "1"}
    assert [one.status_code for one in pages(ask, lambda: flips(views, NEXT), **asked)] == [
        200,
        409,
    ]


def test_flip_of_a_day_that_is_not_asked_for_disturbs_nobody(ask: Ask, views: MemoryViews) -> None:
    assert [
        one.status_code for one in pages(ask, lambda: flips(views, NEXT), **TODAY, limit="1")
    ] == [200, 200]


@pytest.mark.parametrize(
    "after",
    ["96", "x", "AAAA", "e30", "bnVsbA", "%00", "eyJzdG9yZSI6MX0", "W10", "=" * 40, "9" * 5_000],
)
def test_after_that_is_no_cursor_is_refused(ask: Ask, after: str) -> None:
    for path, asked in ((PATH, TODAY), ("/v1/stores", {}), ("/v1/metrics", {})):
        answer = ask(path, **asked, after=after)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "after")


def test_cursor_of_another_question_is_refused(ask: Ask) -> None:
    address = ask(PATH, **{**TODAY, "store": "200,300"}, limit="1").json()["next"]
    after = httpx.URL(address).params["after"]
    for other in ({**TODAY, "store": "200"}, {**TODAY, "from": NEXT, "to": AFTER}):
        assert ask(PATH, **other, after=after).json()["errors"][0]["field"] == "after"


def test_currencies_are_looked_at_over_the_whole_question(ask: Ask, views: MemoryViews) -> None:
    views.world = world(sold("100", 100), sold("200", 777, currency="EUR"))
    for limit in ("1", "1000"):
        answer = ask(PATH, **TODAY, limit=limit)
        assert (answer.status_code, answer.json()["errors"][0]["nearest"]) == (422, ["currency"])


def test_each_metric_of_money_answers_two_currencies_as_its_refusal_says(
    ask: Ask, views: MemoryViews
) -> None:
    made = world(sold("100", 100), sold("100", 780, currency="EUR"))
    made.rows.append(counted("100", f"{DAY}T10:00", 1, 20, generation=1))
    made.pointers.append((TRAFFIC, flip(DAY, 1, f"{AFTER}T02:00", pin=10)))
    views.world = made
    asked = {**TODAY, "store": "100"}
    money = [one["id"] for one in ask("/v1/metrics").json()["metrics"] if one["unit"] == "minor"]
    found = {}
    for metric in money:
        refused = ask(f"/v1/metrics/{metric}", **asked)
        (error,) = refused.json()["errors"]
        rows = ask(f"/v1/metrics/{metric}", **asked, **{error["field"]: error["nearest"]}).json()
        found[metric] = [(row["by"]["currency"], row["value"]) for row in rows["rows"]]

    assert len(money) > 4
    assert {len(rows) for rows in found.values()} == {2}
    assert found["sales_per_visitor"] == [("EUR", 39.0), ("USD", 5.0)]


def test_currency_of_another_day_does_not_matter(ask: Ask, views: MemoryViews) -> None:
    views.world = world(sold("100", 100), sold("100", 777, currency="EUR", start=f"{NEXT}T10:00"))
    assert ask(PATH, **{**TODAY, "store": "100"}).json()["currency"] == "USD"
    assert ask(PATH, **{**TODAY, "store": "100", "to": AFTER}, limit="1").status_code == 422


def test_pages_by_currency_have_a_row_for_each_of_the_questions_currencies(
    ask: Ask, views: MemoryViews
) -> None:
    views.world = world(sold("100", 100), sold("100", 777, currency="EUR", start=f"{NEXT}T10:00"))
    asked = {**TODAY, "store": "100", "to": AFTER, "by": "currency"}
    rows = [
        row for page in pages(ask, lambda: None, **asked, limit="2") for row in page.json()["rows"]
    ]
    assert [(row["start"][:10], row["by"]["currency"], row["value"]) for row in rows] == [
        (DAY, "EUR", 0),
        (DAY, "USD", 100),
        (NEXT, "EUR", 777),
        (NEXT, "USD", 0),
    ]


def test_stores_are_listed_in_pages_that_neither_repeat_nor_skip(
    ask: Ask, views: MemoryViews
) -> None:
    first = ask("/v1/stores", limit="1").json()
    arrives(views, sold("100", 1))
    second = ask(first["next"]).json()
    assert [one["store_id"] for one in first["stores"] + second["stores"]] == ["200", "300"]
    assert second["next"] is None
