"""Rules of stock on what nobody expects: odd articles, levels at limits, counts that come late."""

from dataclasses import replace
from decimal import Decimal
from urllib.parse import unquote

import pytest

from alerting.rules.rule import Threshold
from ingest.sources.inventory.contract import MAX_MILLI
from runtime.registry.sources import FAMILIES
from tally.algebra.level import Level
from tests.support.alerts.evaluated_shelves import SOLD_OUT, deliver, look, rebuild, sell
from tests.support.evaluation.evaluating import DAY, Watching, said
from tests.support.evaluation.simulating import EVE, simulated
from tests.support.questions.stock_world import (
    INVENTORY,
    counted,
    days_until,
    moved,
    receipt,
    sales_rows,
    shelf,
)
from tests.unit.alerting.rules.rules import rule

IMPOSSIBLE = replace(
    SOLD_OUT,
    rule_id="stock-impossible",
    condition=Threshold("<", Decimal(0)),
    clear=Threshold(">", Decimal(0)),
)
ODD = ["|", "a|b|clear", "%", "50%25", "none", "item:milk", "Käse ü€😀", "x" * 255, "é" * 255, " "]
# Of a level, which takes twice the number: what a column of Cassandra holds.
MAX_LEVEL = 2**62 - 1


@pytest.mark.parametrize("article", ODD)
def test_an_article_of_any_name_is_told_restored_and_ends(shop: Watching, article: str) -> None:
    shelves = shop()
    deliver(shelves, "08:30", article, (0, counted(1)))
    sell(shelves, "09:01", 1, **{article: 1})
    shelves.begin_again()
    deliver(shelves, "09:15", article, (0, moved(5)))
    look(shelves, "10:02")

    assert said(shelves.alerts) == [
        ("raise", "provisional", "09:00"),
        ("clear", "provisional", "09:30"),
    ]
    [subject] = {one.subject for one in shelves.alerts}
    kind, _, named = subject.partition(":")
    assert (kind, unquote(named), "|" in subject) == ("item", article, False)


def test_articles_whose_names_look_alike_are_apart(shop: Watching) -> None:
    shelves = shop()
    for number, article in enumerate(ODD):
        deliver(shelves, f"{4 + number // 4:02d}:{number % 4 * 15:02d}", article, (0, counted(1)))
    sell(shelves, "09:01", 1, **dict.fromkeys(ODD, 1))

    assert len({one.alert_id for one in shelves.alerts}) == len(ODD)
    assert {unquote(one.subject.removeprefix("item:")) for one in shelves.alerts} == {*ODD}


@pytest.mark.parametrize(
    ("milli", "told"),
    [
        (-1, -0.001),
        (-MAX_MILLI, -(MAX_MILLI // 1000)),
        (-1000 * (MAX_LEVEL // 1000), -(MAX_LEVEL // 1000)),
    ],
)
def test_a_level_at_its_limit_is_told_to_the_last_digit(
    shop: Watching, milli: int, told: float
) -> None:
    shelves = shop(IMPOSSIBLE)

    deliver(shelves, "08:30", "tea", (0, Level.encode_count(0)), (1, Level.encode_movement(milli)))

    [raised] = shelves.alerts
    assert (raised.subject, raised.value) == ("item:tea", told)


def test_more_than_any_column_holds_is_still_a_number(shop: Watching) -> None:
    shelves = shop(IMPOSSIBLE)
    least = Level.encode_movement(-1000 * (MAX_LEVEL // 1000))

    deliver(shelves, "08:30", "tea", (0, Level.encode_count(0)), (1, least), (2, least), (3, least))

    assert [one.value for one in shelves.alerts] == [float(-3 * (MAX_LEVEL // 1000))]


def test_a_rule_of_what_cannot_be_fits() -> None:
    told = {"condition": {"op": "<", "value": "0"}, "clear": {"op": ">", "value": "0"}}

    found = rule("stock", rule_id="stock-impossible", **told)

    assert (found.condition, found.clear) == (IMPOSSIBLE.condition, IMPOSSIBLE.clear)


def test_less_than_nothing_is_told_and_ends_above_nothing(shop: Watching) -> None:
    shelves = shop(IMPOSSIBLE)
    sell(shelves, "09:01", 1, milk=10)
    assert shelves.alerts == []

    sell(shelves, "09:16", 2, milk=3)
    deliver(shelves, "09:45", "milk", (0, moved(3)))
    look(shelves, "10:32")
    assert [(one.edge, one.value) for one in shelves.alerts] == [("raise", -3)]

    deliver(shelves, "10:30", "milk", (0, moved(1)))
    look(shelves, "11:32")

    # Nothing lies between, so that the quarter hour is the one in which it came.
    assert [(one.edge, one.value) for one in shelves.alerts][1:] == [("clear", 1)]


def test_a_count_that_comes_days_late_takes_back_what_hung_on_the_one_before(
    shop: Watching,
) -> None:
    shelves = shop(since="2026-11-21T08:00")
    sell(shelves, "09:01", 1, milk=10)
    rebuild(shelves, EVE, DAY)
    look(shelves, "10:02")
    assert said(shelves.alerts)[-1] == ("raise", "confirmed", "09:00")

    # It lies behind the count of the evening before by an hour, and says that there was more.
    late = shelf(f"{EVE}T18:00", "milk", (0, counted(15)), generation=None)
    shelves.world.rows.append(late)
    rebuild(shelves, EVE, DAY, generation=2)
    shelves.hint(f"{EVE}T18:00", INVENTORY)
    look(shelves, "10:04")

    assert said(shelves.alerts)[-1] == ("raise", "retracted", "09:00")
    assert shelves.alerts[-1].value == 5


def test_days_of_2017_are_simulated_like_those_of_now(begun: Watching) -> None:
    shelves = begun(SOLD_OUT)
    days = days_until("2017-09-19", 3)
    for family in ("sales", "inventory"):
        shelves.sends(days[0], FAMILIES[family])
    shelves.world.rows += [
        shelf(f"{days[0]}T17:00", "milk", (0, counted(10)), generation=None),
        shelf(f"{days[2]}T09:15", "milk", (0, moved(8)), generation=None),
    ]
    made = receipt(f"{days[2]}T09:01:00", 1, milk=10)
    shelves.world.receipts.append(made)
    shelves.world.rows += sales_rows([made], generation=None)
    rebuild(shelves, *days)

    [found] = simulated(shelves, "sold-out", f"{days[2]}T00:00", f"{days[2]}T23:00").stores

    [episode] = found.episodes
    assert (episode.subject, episode.value, episode.is_complete) == ("item:milk", 0, True)
    assert (found.is_certain, found.incomplete_days) == (True, ())
