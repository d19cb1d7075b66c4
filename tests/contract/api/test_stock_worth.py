"""What a stock on hand is worth: final where its views are, unknown where something is missing."""

from tests.support.questions.stock_world import (
    MONDAY,
    TUESDAY,
    counted,
    days_until,
    published,
    receipt,
    sales_rows,
    shelf,
    stock_world,
    worth,
)


def test_an_answer_of_generations_is_final_and_complete() -> None:
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(20)))])

    assert worth(world) == [(20, "batch", "final", True)] * 4


def test_a_sale_that_came_late_counts_and_is_provisional_until_a_rebuild() -> None:
    early, late = (receipt(f"{TUESDAY}T10:1{m}:00", m, milk=1) for m in (6, 7))
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)))], [early])
    world.receipts.append(late)

    provisional = (7, "batch", "provisional", False)
    assert worth(world) == [(9, "batch", "final", True), *[provisional] * 3]

    world.rows = [world.rows[0], *sales_rows([early, late])]
    assert worth(world)[1] == (7, "batch", "final", True)


def test_receipts_that_are_counted_and_not_there_leave_it_unknown_up_to_the_next_count() -> None:
    rows = [
        shelf(f"{MONDAY}T08:00", "milk", (0, counted(9))),
        shelf(f"{TUESDAY}T10:30", "milk", (0, counted(5))),
    ]
    world = stock_world(rows)
    world.rows += sales_rows([receipt(f"{TUESDAY}T10:16:00", 1, milk=1)])

    found = worth(world)
    assert [one[0] for one in found] == [9, None, 5, 5]
    assert found[1][1:] == ("missing", "provisional", False)
    assert found[2][2:] == ("provisional", False)


def test_a_window_that_neither_layer_has_leaves_it_unknown_up_to_the_next_count() -> None:
    days = days_until(TUESDAY, 3)
    world = stock_world(
        [
            shelf(f"{days[0]}T08:00", "milk", (0, counted(9))),
            shelf(f"{TUESDAY}T10:30", "milk", (0, counted(5))),
        ]
    )
    # Of the day between nobody has published anything.
    world.pointers = published(days[0], days[2])

    found = worth(world)
    assert [one[0] for one in found] == [None, None, 5, 5]
    assert found[0][1:] == ("missing", "provisional", False)


def test_of_the_speed_layer_it_is_provisional() -> None:
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)))])
    sold = [receipt(f"{TUESDAY}T10:16:00", 1, milk=1), receipt(f"{TUESDAY}T10:31:00", 2, milk=1)]
    world.receipts = sold
    world.rows += sales_rows(sold, generation=None)

    assert worth(world)[1:3] == [
        (8, "mixed", "provisional", False),
        (7, "mixed", "provisional", False),
    ]


def test_a_count_that_came_late_restates() -> None:
    world = stock_world([shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)))])
    world.rows.append(shelf(f"{MONDAY}T08:00", "milk", (0, counted(9)), generation=2))
    world.rows.append(shelf(f"{TUESDAY}T10:15", "milk", (0, counted(4)), generation=2))
    world.pointers += published(MONDAY, TUESDAY, generation=2)

    assert worth(world) == [(9, "batch", "final", True), *[(4, "batch", "restated", True)] * 3]
