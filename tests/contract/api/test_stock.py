"""Stock on hand: the last count, what documents brought since, less what receipts sold."""

import httpx
import pytest

from serving import items
from serving.stock import COUNT_DAYS
from tests.support.questions.stock_world import (
    MONDAY,
    MORNING,
    OTHER,
    STORE,
    TUESDAY,
    WEDNESDAY,
    answer,
    asked_of,
    counted,
    days_until,
    moved,
    published,
    receipt,
    sales_row,
    shelf,
    stock_world,
    values,
    worth,
)
from tests.support.serving.raw_receipts import line, raw
from tests.support.serving.serving_world import at


def test_stock_is_the_last_count_and_what_came_and_went_since() -> None:
    rows = [
        shelf(f"{TUESDAY}T10:00", "milk", (60, counted(20))),
        shelf(f"{TUESDAY}T10:30", "milk", (0, moved(24)), (300, moved(-4))),
    ]
    receipts = [
        # Before the count: it is not there any more when somebody counts.
        receipt(f"{TUESDAY}T10:00:59", 1, milk=3),
        receipt(f"{TUESDAY}T10:01:01", 2, milk=2, bread=1),
        receipt(f"{TUESDAY}T10:20:00", 3, milk=1.5),
        receipt(f"{TUESDAY}T10:45:00", 4, milk=-1),
    ]

    assert values(stock_world(rows, receipts)) == [18, 16.5, 36.5, 37.5]


@pytest.mark.parametrize("back", [1, 8, 9, 31, 100, COUNT_DAYS])
def test_a_count_long_before_the_question_is_found(back: int) -> None:
    days = days_until(TUESDAY, back + 1)
    world = stock_world(
        [shelf(f"{days[0]}T10:00", "milk", (0, counted(20)))],
        [receipt(f"{days[1]}T10:01:00", 2, milk=2)],
    )
    world.pointers = published(*days)

    assert values(world) == [18] * 4


def test_a_count_of_more_than_a_year_ago_says_nothing() -> None:
    days = days_until(TUESDAY, COUNT_DAYS + 2)
    world = stock_world([shelf(f"{days[0]}T10:00", "milk", (0, counted(20)))])
    world.pointers = published(*days)

    assert values(world) == [None] * 4


def test_articles_that_were_counted_on_different_days_are_apart() -> None:
    days = days_until(TUESDAY, 40)
    rows = [
        shelf(f"{days[0]}T10:00", "milk", (0, counted(20))),
        shelf(f"{days[30]}T10:00", "bread", (0, counted(5))),
        # Bread of before its count.
        shelf(f"{days[2]}T10:00", "bread", (0, moved(100))),
        shelf(f"{days[35]}T10:00", "milk", (0, moved(1))),
    ]
    receipts = [
        receipt(f"{days[1]}T09:00:00", 1, milk=4),
        receipt(f"{MONDAY}T09:00:00", 2, bread=1),
    ]
    world = stock_world(rows, receipts)
    world.pointers = published(*days)

    assert values(world, by="item_id") == [{"bread": 4, "milk": 17}] * 4
    assert values(world) == [21] * 4


def test_what_nobody_has_counted_is_not_known_and_not_nothing() -> None:
    rows = [
        shelf(f"{MONDAY}T08:00", "milk", (0, counted(20))),
        shelf(f"{MONDAY}T08:00", "bread", (0, moved(30))),
    ]
    world = stock_world(rows, [receipt(f"{TUESDAY}T10:20:00", 1, bread=2, tea=7)])

    # Of what no document ever named there is no row.
    assert values(world, by="item_id") == [{"bread": None, "milk": 20}] * 4
    assert values(world) == [None] * 4
    assert values(stock_world()) == [None] * 4


def test_more_sold_than_there_can_have_been_is_shown_as_it_is() -> None:
    rows = [shelf(f"{MONDAY}T08:00", "milk", (0, counted(1)))]
    world = stock_world(rows, [receipt(f"{TUESDAY}T10:20:00", 1, milk=4)])

    assert values(world) == [1, -3, -3, -3]
    assert values(world, "lowest_stock") == [1, -3, -3, -3]


def test_a_dip_inside_a_window_is_the_lowest_of_it() -> None:
    rows = [
        shelf(f"{MONDAY}T08:00", "milk", (0, counted(3))),
        shelf(f"{TUESDAY}T10:15", "milk", (600, moved(10))),
    ]
    world = stock_world(rows, [receipt(f"{TUESDAY}T10:20:00", 1, milk=3)])

    assert values(world) == [3, 10, 10, 10]
    assert values(world, "lowest_stock") == [3, 0, 10, 10]
    assert values(world, "lowest_stock", grain="1h") == [0]
    day = {"from": MONDAY, "to": WEDNESDAY, "grain": "1d"}
    # On Monday morning nobody knows what there was.
    assert values(world, "lowest_stock", **day) == [None, 0]
    assert values(world, **day) == [3, 10]


def test_the_lowest_of_several_articles_is_that_of_the_one_with_the_least() -> None:
    rows = [
        shelf(f"{MONDAY}T08:00", "milk", (0, counted(3)), seen=1),
        shelf(f"{MONDAY}T08:00", "bread", (0, counted(8)), seen=1),
    ]
    world = stock_world(rows, [receipt(f"{TUESDAY}T10:20:00", 1, bread=6)])

    assert values(world, "lowest_stock") == [3, 2, 2, 2]
    assert values(world, "lowest_stock", by="item_id")[1] == {"bread": 2, "milk": 3}


def test_what_is_taken_back_is_on_the_shelf_again() -> None:
    sold = receipt(f"{TUESDAY}T10:20:00", 1, milk=4)
    void = raw(STORE, f"{TUESDAY}T10:40:00", 2, line("milk", 100, 4), voids=1)
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)))])
    world.receipts = [sold, void]
    # As a rebuild has it: both are events of their windows, and add nothing.
    world.rows += [sales_row(STORE, at(f"{TUESDAY}T10:{m}"), 1, 0) for m in ("15", "30")]

    assert worth(world) == [(9, "batch", "final", True)] * 4


def test_sale_and_its_void_of_the_same_number_and_instant_leave_what_there_was() -> None:
    # As POSLog's PostVoided has them.
    sold = receipt(f"{TUESDAY}T10:20:00", 1, milk=4)
    void = raw(STORE, f"{TUESDAY}T10:20:00", 1, line("milk", 400, 4), voids=1, offset=2)
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)))])
    world.receipts = [sold, void]
    world.rows.append(sales_row(STORE, at(f"{TUESDAY}T10:15"), 2, 0))

    assert worth(world) == [(9, "batch", "final", True)] * 4


def test_pages_are_one_answer() -> None:
    rows = [shelf(f"{MONDAY}T08:00", name, (0, counted(90)), seen=1) for name in ("milk", "bread")]
    sold = [receipt(f"{TUESDAY}T{hour:02d}:20:00", hour, milk=1) for hour in range(24)]
    world = stock_world(rows, sold)
    span = {"from": TUESDAY, "to": WEDNESDAY, "by": "item_id"}

    with asked_of(world) as ask:
        page = ask("/v1/metrics/lowest_stock", store=STORE, limit="10", **span).json()
        found = [*page["rows"]]
        while page["next"]:
            page = ask(page["next"]).json()
            found += page["rows"]

    assert found == answer(world, "lowest_stock", **span)["rows"]
    assert len(found) == 2 * 96


def test_each_of_several_stores_has_its_own() -> None:
    rows = [
        shelf(f"{MONDAY}T08:00", "milk", (0, counted(9))),
        shelf(f"{MONDAY}T09:00", "milk", (0, counted(5)), store=OTHER),
    ]
    world = stock_world(rows, [receipt(f"{TUESDAY}T10:20:00", 1, store=OTHER, milk=1)])

    series = answer(world, store=f"{STORE},{OTHER}", tz="store")["series"]

    found = {one["store"]: [row["value"] for row in one["rows"]] for one in series}
    assert found == {STORE: [9] * 4, OTHER: [5, 4, 4, 4]}


def test_of_the_past_there_is_no_answer() -> None:
    with asked_of(stock_world()) as ask:
        refused = ask("/v1/metrics/stock_on_hand", as_of=f"{TUESDAY}T12:00:00Z", **MORNING)

    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert "leave it out" in refused.json()["detail"]


def test_more_receipts_than_one_question_may_read_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items, "MAX_RECEIPTS", 1)
    sold = [receipt(f"{MONDAY}T10:2{m}:00", m, milk=1) for m in range(3)]
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)))], sold)

    with asked_of(world) as ask:
        refused = ask("/v1/metrics/stock_on_hand", **MORNING)

    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert "receipts" in refused.json()["detail"]


def test_what_documents_brought_is_asked_by_article() -> None:
    world = stock_world([shelf(f"{TUESDAY}T10:15", "milk", (0, counted(9)))])

    assert values(world, "stock_counts", by="item_id") == [{"milk": 0}] * 4
    assert values(world, "units_delivered") == [0] * 4
