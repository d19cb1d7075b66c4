"""The report `items`: what was sold of which article, and whether that is all of the revenue."""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from serving import items
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.questions.report_world import report_world
from tests.support.serving.raw_receipts import line, raw
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app

PATH = "/v1/reports/items"
WEEK = {"store": "367", "from": "2026-11-16", "to": "2026-11-23"}
# Days that the speed layer alone knows, and of which it does not know all.
RUNNING = {"store": "367", "from": "2026-11-23", "to": "2026-11-25"}
SPLIT = ("value", "units", "receipts", "previous")


@pytest.fixture
def views() -> MemoryViews:
    return MemoryViews(report_world())


@pytest.fixture
def ask(views: MemoryViews) -> Iterator[Ask]:
    with asking(create_app(Settings(), views)) as function:
        yield function


def report(ask: Ask, **asked: str) -> dict[str, Any]:
    answer = ask(PATH, **{**WEEK, **asked})
    assert answer.status_code == httpx.codes.OK, answer.text
    found: dict[str, Any] = answer.json()
    return found


def numbers(entry: dict[str, Any]) -> list[Any]:
    return [entry[name] for name in SPLIT]


def test_articles_come_by_value_and_add_up_to_the_sales_of_the_days(ask: Ask) -> None:
    found, sales = report(ask), ask("/v1/reports/sales", **WEEK).json()

    same = ("value", "unit", "currency", "change_percent", "coverage", "complete", "through")
    assert {name: found[name] for name in same} == {name: sales[name] for name in same}
    assert [one["item_id"] for one in found["series"]] == ["4001", "4003", "4002", "4004"]
    assert sum(one["value"] for one in found["series"]) == found["value"] == 63968
    assert sum(one["previous"] for one in found["series"]) == found["previous"]["value"]
    assert (found["complete"], found["unexplained_minor"]) == (True, 0)
    assert found["previous"]["unexplained_minor"] == 0


def test_an_article_has_its_name_units_receipts_and_share(ask: Ask) -> None:
    milk, *_, bag = report(ask)["series"]

    assert milk == {
        "item_id": "4001",
        "item": "Milk 1l",
        "category": "Dairy",
        "value": 24980,
        "units": 50,
        "receipts": 22,
        "share": 0.390508,
        "previous": 25978,
    }
    assert bag["category"] is None


def test_categories_are_sums_of_their_articles(ask: Ask) -> None:
    found, articles = report(ask, by="category"), report(ask)["series"]

    assert [one["category"] for one in found["series"]] == ["Dairy", "Bakery", None]
    dairy = [one for one in articles if one["category"] == "Dairy"]
    sums = [sum(one[name] for one in dairy) for name in ("value", "units", "previous")]
    assert [found["series"][0][name] for name in ("value", "units", "previous")] == sums
    assert "item" not in found["series"][0]


def test_what_is_not_among_the_first_is_one_entry(ask: Ask) -> None:
    first, *rest = report(ask)["series"]

    found = report(ask, top="1")

    assert found["series"][0] == first and len(found["series"]) == 2
    others = found["series"][1]
    assert (others["others"], others["item_id"], others["receipts"]) == (3, None, None)
    names = ("value", "units", "previous")
    assert [others[name] for name in names] == [sum(one[name] for one in rest) for name in names]


def test_articles_of_one_value_come_by_id(ask: Ask, views: MemoryViews) -> None:
    views.world.receipts.clear()
    goods = [line(name, 500) for name in ("c", "a", "b")]
    views.world.receipts.append(raw("367", "2026-11-17T10:00:00", 1, *goods))

    assert [one["item"] for one in report(ask)["series"]] == ["a", "b", "c"]
    assert [one.get("item") for one in report(ask, top="1")["series"]] == ["a", None]


def test_what_was_sold_before_alone_is_an_article_of_nothing(ask: Ask, views: MemoryViews) -> None:
    views.world.receipts.append(raw("367", "2026-11-10T10:00:00", 1, line("Ice", 500)))

    found = report(ask)

    assert numbers(found["series"][-1]) == [0, 0, 0, 500]
    # The view of those days lacks it.
    assert (found["previous"]["unexplained_minor"], found["complete"]) == (-500, False)
    assert found["unexplained_minor"] == 0


@pytest.mark.parametrize("gone", [1, 3])
def test_receipts_that_are_gone_make_it_incomplete_and_say_by_how_much(
    ask: Ask, views: MemoryViews, gone: int
) -> None:
    whole = report(ask)
    of_week = [one for one in views.world.receipts if one.store_id == "367"][-40:]
    lost = [one for one in of_week if one.happened_at.day in (17, 18)][:gone]
    for one in lost:
        views.world.receipts.remove(one)

    found = report(ask)

    assert len(lost) == gone and found["value"] == whole["value"]
    assert (found["complete"], found["unexplained_minor"]) == (False, 1999 * gone)
    assert sum(one["value"] for one in found["series"]) == found["value"] - 1999 * gone


def test_all_receipts_gone_is_no_entry_and_no_zero(ask: Ask, views: MemoryViews) -> None:
    views.world.receipts.clear()

    found = report(ask)

    assert (found["series"], found["value"], found["unexplained_minor"]) == ([], 63968, 63968)
    assert not found["complete"]


def test_days_that_may_change_are_not_complete_however_well_they_add_up(ask: Ask) -> None:
    found = report(ask, **RUNNING)

    assert (found["complete"], found["unexplained_minor"]) == (False, 0)
    assert sum(one["value"] for one in found["series"]) == found["value"] > 0


def test_of_days_without_an_answer_nothing_is_explained(ask: Ask, views: MemoryViews) -> None:
    views.world.receipts.append(raw("367", "2026-01-05T10:00:00", 1, line("Ice", 500)))

    found = report(ask, **{"from": "2026-01-05", "to": "2026-01-06"})

    assert (found["value"], found["unexplained_minor"], found["complete"]) == (None, None, False)
    assert [numbers(one) for one in found["series"]] == [[500, 1, 1, 0]]
    assert found["series"][0]["share"] is None


def test_money_of_several_currencies_is_refused_as_that_of_the_sales(ask: Ask) -> None:
    answers = [ask(path, **{**WEEK, "store": "500"}) for path in (PATH, "/v1/reports/sales")]

    details = [answer.json()["detail"] for answer in answers]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert details[0] == details[1] and "EUR, USD, which do not add up" in details[0]


def test_a_currency_that_the_receipts_alone_have_is_refused_too(
    ask: Ask, views: MemoryViews
) -> None:
    euros = raw("367", "2026-11-17T10:00:00", 1, line("Ice", 500), currency="EUR")
    views.world.receipts.append(euros)

    assert "EUR, USD, which do not add up" in ask(PATH, **WEEK).json()["detail"]


@pytest.mark.parametrize(
    ("report_id", "asked", "field"),
    [
        ("items", {"top": "0"}, "top"),
        ("items", {"top": "1001"}, "top"),
        ("items", {"by": "till"}, "by"),
        ("sales", {"by": "item"}, "by"),
        ("sales", {"top": "20"}, "top"),
        ("items", {"from": "2025-01-01"}, "to"),
    ],
)
def test_what_the_report_cannot_be_asked_is_refused(
    ask: Ask, report_id: str, asked: dict[str, str], field: str
) -> None:
    answer = ask(f"/v1/reports/{report_id}", **{**WEEK, **asked})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_more_receipts_than_are_read_at_once_are_refused_with_the_way_out(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "MAX_RECEIPTS", 40)
    answer = ask(PATH, **WEEK)

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "to")
    assert answer.json()["detail"].endswith("more than 40 receipts; ask for fewer days")
    assert ask(PATH, **{**WEEK, "from": "2026-11-20"}).status_code == httpx.codes.OK


def test_days_are_those_of_the_zone(ask: Ask, views: MemoryViews) -> None:
    # 23:30 of the 17th in UTC is the 18th in Rome.
    views.world.receipts.append(raw("367", "2026-11-17T23:30:00", 1, line("Ice", 500)))

    found = [
        report(ask, tz="Europe/Rome", **{"from": first, "to": end})
        for first, end in (("2026-11-17", "2026-11-18"), ("2026-11-18", "2026-11-19"))
    ]
    names = [[one["item"] for one in of_day["series"]] for of_day in found]
    assert ["Ice" in of_day for of_day in names] == [False, True]
    # The views lack it, and nothing else.
    assert [of_day["unexplained_minor"] for of_day in found] == [0, -500]


def test_receipts_that_cannot_be_read_are_503(ask: Ask, views: MemoryViews) -> None:
    views.is_down = True

    assert ask(PATH, **WEEK).status_code == httpx.codes.SERVICE_UNAVAILABLE


def test_lines_of_many_receipts_are_added_up_beside_the_event_loop(
    views: MemoryViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    class Watched(items.ItemSums):
        def add(self, *args: Any, **more: Any) -> None:
            threads.add(threading.get_ident())
            super().add(*args, **more)

    monkeypatch.setattr(items, "ItemSums", Watched)
    with asking(create_app(Settings(), views)) as ask:
        many = [line("Milk", 1)] * 1_000
        views.world.receipts.append(raw("367", "2026-11-17T10:00:00", 9, *many))
        assert "Milk" in {one["item"] for one in report(ask)["series"]}

    # The loop runs in this one.
    assert threads and threading.get_ident() not in threads
