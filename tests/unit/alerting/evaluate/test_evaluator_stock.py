"""What an evaluator tells of articles that run out: eagerly, each by itself, and of no others."""

from dataclasses import replace
from decimal import Decimal

import pytest

from alerting.rules.rule import Threshold
from serving import items
from tally.alerts.message import Alert
from tests.support.alerts.evaluated_shelves import (
    INVENTORY,
    SOLD_OUT,
    deliver,
    look,
    rebuild,
    sell,
    stock_up,
)
from tests.support.evaluation.evaluating import BUSY, DAY, Watching, said
from tests.support.questions.stock_world import counted, moved, receipt, sales_rows, shelf
from tests.support.serving.serving_world import flip

# One receipt is.
MANY = Threshold(">=", Decimal(1))
MILK, BREAD = "item:milk", "item:bread"


def of(alerts: list[Alert], subject: str) -> list[tuple[str, str, str]]:
    return said(one for one in alerts if one.subject == subject)


def test_the_last_unit_raises_while_the_quarter_hour_is_open(shop: Watching) -> None:
    shelves = shop()

    assert sell(shelves, "09:01", 1, milk=9) == []
    [raised] = sell(shelves, "09:16", 2, milk=1)

    assert (raised.subject, raised.edge, raised.state) == (MILK, "raise", "provisional")
    assert (raised.value, raised.threshold, raised.metric) == (0, 0, "stock_on_hand")
    assert raised.window.start == f"{DAY}T09:15:00Z"
    assert {one.family for one in raised.evidence.read} == {"inventory", "sales"}


def test_more_is_sold_than_there_was_is_told_as_it_is(shop: Watching) -> None:
    shelves = shop()

    [raised] = sell(shelves, "09:01", 1, milk=13)

    assert raised.value == -3


def test_a_dip_that_a_delivery_ends_within_its_quarter_hour_counts(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:16", 1, milk=10)
    deliver(shelves, "09:15", "milk", (300, moved(30)))

    look(shelves, "10:02")

    assert of(shelves.alerts, MILK) == [
        ("raise", "provisional", "09:15"),
        ("clear", "provisional", "09:30"),
    ]
    assert [one.value for one in shelves.alerts] == [0, 30]


def test_between_the_two_conditions_all_stays_as_it_is(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10)
    deliver(shelves, "09:15", "milk", (0, moved(4)))
    look(shelves, "10:02")
    sell(shelves, "10:01", 2, milk=3)
    assert of(shelves.alerts, MILK) == [("raise", "provisional", "09:00")]

    deliver(shelves, "10:15", "milk", (0, moved(4)))
    look(shelves, "11:02")

    assert of(shelves.alerts, MILK)[1:] == [("clear", "provisional", "10:15")]
    assert [(one.value, one.threshold) for one in shelves.alerts] == [(0, 0), (5, 5)]


def test_each_article_has_alerts_of_its_own(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10, bread=19)
    sell(shelves, "09:31", 2, bread=1)

    assert of(shelves.alerts, MILK) == [("raise", "provisional", "09:00")]
    assert of(shelves.alerts, BREAD) == [("raise", "provisional", "09:30")]
    assert len({one.alert_id for one in shelves.alerts}) == len(shelves.alerts) == 2


def test_of_an_article_that_nobody_has_counted_nothing_is_told(shop: Watching) -> None:
    shelves = shop()
    deliver(shelves, "08:30", "wine", (0, moved(2)))
    sell(shelves, "09:01", 1, wine=3)
    look(shelves, "10:02")
    assert shelves.alerts == []

    # From a count on it is known.
    deliver(shelves, "10:00", "wine", (120, counted(0)))
    assert of(shelves.alerts, "item:wine") == [("raise", "provisional", "10:00")]


def test_generations_confirm_and_a_delivery_that_came_late_takes_back(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10)
    rebuild(shelves, "2026-11-23", DAY)
    look(shelves, "10:02")
    assert of(shelves.alerts, MILK)[1:] == [("raise", "confirmed", "09:00")]

    deliver(shelves, "08:45", "milk", (0, moved(9)))
    rebuild(shelves, "2026-11-23", DAY, generation=2)
    shelves.hint(f"{DAY}T08:45", INVENTORY)
    look(shelves, "10:04")

    assert of(shelves.alerts, MILK)[2:] == [("raise", "retracted", "09:00")]
    assert shelves.alerts[-1].reason == "late_data"


def test_nothing_is_confirmed_beside_a_receipt_that_no_generation_has(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10)
    rebuild(shelves, "2026-11-23", DAY)
    # Of yesterday, and so late that no view has it: today's stock hangs on it.
    shelves.world.receipts.append(receipt("2026-11-23T18:00:00", 9, bread=1))

    look(shelves, "10:02")

    assert of(shelves.alerts, MILK) == [("raise", "provisional", "09:00")]


def test_what_is_counted_and_not_there_yet_leaves_all_as_it_is(shop: Watching) -> None:
    shelves = shop()
    made = receipt(f"{DAY}T09:01:00", 1, milk=10)
    shelves.world.rows += sales_rows([made], generation=None)
    look(shelves, "09:02")
    assert shelves.hint(f"{DAY}T09:00") == []

    shelves.world.receipts.append(made)

    assert said(look(shelves, "09:32")) == [("raise", "provisional", "09:00")]


def test_what_changes_a_day_before_reaches_the_days_behind(shop: Watching) -> None:
    shelves = shop()
    look(shelves, "08:02")
    late = receipt("2026-11-23T18:01:00", 1, milk=10)
    shelves.world.receipts.append(late)
    shelves.world.rows += sales_rows([late], generation=None)

    shelves.hint("2026-11-23T18:00")

    # The first window that the rule evaluates.
    assert of(shelves.alerts, MILK) == [("raise", "provisional", "08:00")]


def test_a_sale_that_came_late_tells_of_a_later_day_that_it_has_emptied(shop: Watching) -> None:
    shelves = shop(since="2026-11-23T18:00")
    sell(shelves, "09:01", 1, milk=1)
    late = receipt("2026-11-23T18:01:00", 2, milk=9)
    shelves.world.receipts.append(late)
    shelves.world.rows += sales_rows([late], generation=None)

    shelves.hint("2026-11-23T18:00")

    # On its own day one was left.
    assert [one.window.start for one in shelves.alerts] == [f"{DAY}T09:00:00Z"]


def test_rows_of_another_definition_before_today_leave_it_unknown(shop: Watching) -> None:
    shelves = shop()
    higher = replace(
        flip("2026-11-23", 1, f"{DAY}T08:00", pin=10, covered_until="2026-11-23T12:00"), epoch=99
    )
    shelves.publish(higher, INVENTORY)
    look(shelves, "08:17")

    assert sell(shelves, "09:01", 1, milk=10) == []


def test_every_article_of_a_large_store_is_watched(shop: Watching) -> None:
    shelves = shop()
    articles = [f"a{number:04}" for number in range(1, 1_001)]
    stock_up(shelves, articles, 10)
    gone = [articles[number - 1] for number in (3, 499, 500, 900)]

    sell(shelves, "09:01", 1, **dict.fromkeys(gone, 10))

    assert [one.subject for one in shelves.alerts] == [f"item:{one}" for one in gone]


def test_what_hangs_on_more_receipts_than_may_be_read_stays_as_it_is(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10)
    monkeypatch.setattr(items, "MAX_RECEIPTS", 0)
    deliver(shelves, "09:15", "milk", (0, moved(40)))
    look(shelves, "10:02")
    rebuild(shelves, "2026-11-23", DAY)
    look(shelves, "11:02")

    assert said(shelves.alerts) == [("raise", "provisional", "09:00")]


def test_only_what_was_counted_too_many_receipts_ago_stays_as_it_is(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelves = shop()
    since_count = [
        receipt(f"2026-11-22T10:{minute}:00", minute, bread=1) for minute in range(10, 40)
    ]
    shelves.world.receipts += since_count
    shelves.world.rows += sales_rows(since_count, generation=None)
    shelves.world.rows.append(shelf("2026-11-21T17:00", "wine", (0, counted(1)), generation=None))
    sell(shelves, "09:01", 1, wine=1)
    monkeypatch.setattr(items, "MAX_RECEIPTS", 20)
    deliver(shelves, "09:15", "wine", (0, moved(40)))

    sell(shelves, "09:46", 2, milk=10)
    rebuild(shelves, "2026-11-21", "2026-11-22", "2026-11-23", DAY)
    look(shelves, "11:02")

    assert of(shelves.alerts, "item:wine") == [("raise", "provisional", "09:00")]
    assert of(shelves.alerts, MILK) == [
        ("raise", "provisional", "09:45"),
        ("raise", "confirmed", "09:45"),
    ]


def test_a_count_makes_an_article_known_whatever_was_too_much_before(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelves = shop()
    sold = [receipt(f"2026-11-23T18:0{minute}:00", minute, bread=1) for minute in range(3)]
    shelves.world.receipts += sold
    shelves.world.rows += sales_rows(sold, generation=None)
    monkeypatch.setattr(items, "MAX_RECEIPTS", 4)
    deliver(shelves, "09:15", "milk", (0, counted(4)))

    [bread] = sell(shelves, "09:31", 3, bread=17)
    assert sell(shelves, "09:47", 4, bread=3, milk=1) == []
    [raised] = sell(shelves, "10:02", 5, milk=3)

    # Of bread nobody knows any more, for its count lies before the receipts that are read.
    assert [(one.subject, one.value) for one in (bread, raised)] == [(BREAD, 0), (MILK, 0)]


def test_who_goes_on_tells_nothing_twice_and_knows_what_is_open(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10)
    shelves.begin_again()
    assert look(shelves, "09:47") == []

    deliver(shelves, "10:00", "milk", (0, moved(6)))
    look(shelves, "11:02")

    assert of(shelves.alerts, MILK)[1:] == [("clear", "provisional", "10:15")]


def test_a_rule_of_the_store_waits_while_any_article_is_sold_out(shop: Watching) -> None:
    shelves = shop(SOLD_OUT, replace(BUSY, unless=("sold-out",), condition=MANY))
    sell(shelves, "09:01", 1, milk=1)
    look(shelves, "09:32")
    assert said(shelves.alerts) == [("raise", "provisional", "09:00")]

    sell(shelves, "09:46", 2, milk=9)
    look(shelves, "10:32")

    assert [(one.rule_id, one.edge) for one in shelves.alerts] == [
        ("busy", "raise"),
        ("sold-out", "raise"),
    ]
