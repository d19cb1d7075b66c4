"""A rule of stock simulated over rows in memory: each article by itself, and how sure that is."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from alerting.rules.rule import Threshold
from alerting.simulate import service
from alerting.simulate import store as simulation
from alerting.simulate.service import SimulatedPage
from tally.errors import BadQuery
from tally.time.instants import to_millis
from tests.support.alerts.alerts import id_of
from tests.support.alerts.evaluated_shelves import (
    INVENTORY,
    SALES,
    SOLD_OUT,
    STORE,
    deliver,
    look,
    rebuild,
    sell,
)
from tests.support.evaluation.evaluating import BUSY, DAY, Watched, Watching
from tests.support.evaluation.simulating import DAWN, EVE, clock_of, compared, simulated
from tests.support.questions.stock_world import (
    counted,
    days_until,
    moved,
    receipt,
    sales_rows,
    shelf,
)
from tests.support.serving.serving_world import at

MILK, BREAD = "item:milk", "item:bread"
Told = tuple[str, str, str | None, Any]


def morning(shelves: Watched) -> None:
    """The milk runs out twice, the bread once within its quarter hour; all is rebuilt."""
    sell(shelves, "09:01", 1, milk=10)
    deliver(shelves, "09:15", "milk", (0, moved(6)))
    sell(shelves, "10:01", 2, milk=6, bread=20)
    deliver(shelves, "10:00", "bread", (600, moved(30)))
    look(shelves, "11:02")
    rebuild(shelves, EVE, DAY)
    look(shelves, "11:04")


def episodes(page: SimulatedPage) -> list[Told]:
    """Of each its subject, the clock (UTC) at begin and end, and its value."""
    return [
        (
            one.subject,
            clock_of(one.episode.start),
            None if one.episode.ended is None else clock_of(one.episode.ended),
            one.value,
        )
        for store in page.stores
        for one in store.episodes
    ]


def of_stock(shelves: Watched, **more: Any) -> SimulatedPage:
    return simulated(shelves, "sold-out", **more)


def test_each_article_has_its_episodes_with_the_least_that_there_was(shop: Watching) -> None:
    shelves = shop()
    morning(shelves)

    page = of_stock(shelves)

    assert episodes(page) == [
        (MILK, "09:00", "09:30", 0),
        (BREAD, "10:00", "10:15", 0),
        (MILK, "10:00", None, 0),
    ]
    [found] = page.stores
    assert {(one.threshold, one.is_complete) for one in found.episodes} == {(0, True)}
    assert (found.incomplete_days, found.is_certain, found.articles) == ((), True, 2)


def test_what_is_called_for_live_is_what_is_simulated(shop: Watching) -> None:
    shelves = shop()
    morning(shelves)

    # Two begins and an end of the milk, begin and end of the bread.
    assert compared(shelves, "sold-out") == (5, [], 0)


def test_an_alert_that_was_not_told_or_of_another_article_is_found(shop: Watching) -> None:
    shelves = shop()
    morning(shelves)
    first = next(one for one in shelves.alerts if (one.subject, one.edge) == (BREAD, "raise"))
    shelves.alerts = [one for one in shelves.alerts if one.alert_id != first.alert_id]
    shelves.alerts += [
        structs.replace(first, alert_id=id_of("wine"), subject="item:wine", state="confirmed"),
        structs.replace(first, alert_id=id_of("all"), subject="none", state="confirmed"),
    ]

    found = sorted(compared(shelves, "sold-out").differences)

    assert found == [
        ("not_called_for", "clear", BREAD),
        ("not_called_for", "raise", "item:wine"),
        ("not_called_for", "raise", "none"),
        # Its end belongs to nothing that was told.
        ("not_told", "clear", BREAD),
        ("not_told", "raise", BREAD),
    ]


def test_an_episode_that_began_days_before_has_its_own_begin(shop: Watching) -> None:
    shelves = shop()
    sell(shelves, "09:01", 1, milk=10)
    deliver(shelves, "09:30", "milk", (0, moved(3)))
    rebuild(shelves, EVE, DAY)

    later = of_stock(shelves, start=f"{DAY}T16:00", end=f"{DAY}T18:00")

    # Too few to end it, and of a quarter hour in which nothing moved.
    assert episodes(later) == [(MILK, "09:00", None, 0)]


def long_kept(shelves: Watched, amount: float) -> None:
    """A year of generations, and bread that was counted in October."""
    for family in (INVENTORY, SALES):
        shelves.sends("2026-01-01", family)
    row = shelf("2026-10-01T17:00", "bread", (0, counted(amount)), generation=None)
    shelves.world.rows += [row]
    rebuild(shelves, *days_until(DAY, 400))


@pytest.mark.parametrize(("amount", "is_sure"), [(3, False), (8, True)])
def test_where_an_article_is_neither_out_nor_plenty_its_begin_may_lie_before(
    begun: Watching, amount: float, is_sure: bool
) -> None:
    shelves = begun(SOLD_OUT)
    long_kept(shelves, amount)

    [found] = of_stock(shelves).stores

    assert (found.is_certain, found.episodes) == (is_sure, ())
    assert (to_millis(at(DAWN)) - found.since) // 86_400_000 == (1 if is_sure else 8)


def test_of_what_nobody_has_counted_nothing_is_open(shop: Watching) -> None:
    shelves = shop()
    shelves.sends("2026-01-01", INVENTORY)
    shelves.sends("2026-01-01")
    deliver(shelves, "08:30", "wine", (0, moved(2)))
    sell(shelves, "09:01", 1, wine=3)
    rebuild(shelves, *days_until(DAY, 40))

    [found] = of_stock(shelves).stores

    assert (found.episodes, found.is_certain, found.articles) == ((), True, 3)


def test_where_receipts_are_lacking_nobody_knows_what_is_open(begun: Watching) -> None:
    shelves = begun(SOLD_OUT)
    # A view has counted it, and it is not there: of no article is known what there is.
    made = receipt("2026-10-02T10:01:00", 1, bread=1)
    shelves.world.rows += sales_rows([made], generation=None)
    long_kept(shelves, 8)

    [found] = of_stock(shelves).stores

    assert (found.episodes, [one.incomplete_windows for one in found.incomplete_days]) == ((), [16])
    assert not found.is_certain


def test_a_rule_that_waits_for_a_sold_out_article_waits_here_too(shop: Watching) -> None:
    busy = replace(BUSY, unless=("sold-out",), condition=Threshold(">=", Decimal(1)))
    shelves = shop(SOLD_OUT, busy)
    # Of what nobody counts: of articles that are there nothing holds the rule back.
    sell(shelves, "08:01", 9, tea=1)
    morning(shelves)
    sell(shelves, "12:01", 3, bread=1)
    rebuild(shelves, EVE, DAY, generation=2)

    found = episodes(simulated(shelves, "busy", end=f"{DAY}T16:00"))

    # At 09:00 and from 10:00 on an article was sold out.
    assert found == [("none", "08:00", "08:15", 1)]


def test_stores_come_in_pages_of_so_many_days(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_SHELF_DAYS", 1)
    shelves = shop()
    for family in (INVENTORY, SALES):
        shelves.store = "406"
        shelves.sends("2026-11-20", family)
    shelves.store = STORE
    morning(shelves)
    day = {"start": f"{DAY}T00:00", "end": f"{DAY}T23:00"}

    first = of_stock(shelves, **day)
    second = of_stock(shelves, **day, after=first.after)

    assert [[one.store_id for one in page.stores] for page in (first, second)] == [[STORE], ["406"]]
    assert (first.after, second.after, second.stores[0].articles) == (STORE, None, 0)


def test_more_days_than_a_page_can_hold_are_refused(shop: Watching) -> None:
    with pytest.raises(BadQuery, match="at most 100 days of a rule that looks at articles"):
        of_stock(shop(), start="2026-08-01T00:00", end="2026-11-10T00:00")


def test_numbers_are_those_of_the_first_articles_that_are_called_for(
    shop: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelves = shop()
    morning(shelves)
    until = {"start": f"{DAY}T08:45", "end": f"{DAY}T10:30", "with_values": True}

    values = of_stock(shelves, **until).stores[0].values
    monkeypatch.setattr(simulation, "MAX_SUBJECTS_WITH_VALUES", 1)

    assert [one.value for one in values[MILK]] == [10, 0, 0, 6, 6, 0, 0]
    assert [one.value for one in values[BREAD]] == [20, 20, 20, 20, 20, 0, 30]
    assert [*of_stock(shelves, **until).stores[0].values] == [MILK]


def test_a_draft_of_stock_needs_no_rule_that_was_applied(shop: Watching) -> None:
    shelves = shop(BUSY)
    morning(shelves)
    fewer = replace(SOLD_OUT, rule_id="few", condition=Threshold("<=", Decimal(4)))

    found = episodes(simulated(shelves, "few", draft=fewer))

    assert found == [
        (MILK, "09:00", "09:30", 0),
        (BREAD, "10:00", "10:15", 0),
        (MILK, "10:00", None, 0),
    ]
