"""The oracle against the published totals of the data, and the comparison against planted
differences."""

from datetime import UTC, date, datetime

import pytest

from ops.audit.oracle import Difference, compare_rows, is_claim_correct
from ops.audit.served import is_covered
from ops.oracle import Scope, Totals, window_totals
from tally.algebra.merge import MergedWindow
from tally.families.generation import Generation

KEY = ("367", datetime(2017, 9, 19, 22, 45, tzinfo=UTC))
CELL = Totals(receipts=2, minor=1250, units_milli=3000)


def served(receipts: int, cents: int) -> MergedWindow:
    parts = {
        "receipts": receipts,
        "gross_minor": cents,
        "returns_minor": 0,
        "voids_minor": 0,
        "discounts_minor": 0,
        "returned_receipts": 0,
        "non_sales_minor": 0,
        "units_milli": 3000,
    }
    return MergedWindow("batch", receipts, {("USD",): parts})


def test_oracle_holds_the_whole_year_to_the_cent() -> None:
    cells = window_totals()

    assert len(cells) == 142_463
    assert (
        sum(cell.receipts for cell in cells.values()),
        sum(cell.minor for cell in cells.values()),
    ) == (155_520, 459_603_958)


def test_scope_takes_both_days_and_only_its_stores() -> None:
    cells = window_totals(Scope(frozenset({"367", "406"}), date(2017, 1, 2), date(2017, 1, 3)))

    assert {store for store, _ in cells} == {"367", "406"}
    assert {start.date() for _, start in cells} == {date(2017, 1, 2), date(2017, 1, 3)}


def test_equal_cells_are_counted_as_equal() -> None:
    found = compare_rows({KEY: CELL}, {KEY: served(2, 1250)})

    assert (found.ok, found.windows, found.equal, found.receipts, found.minor) == (
        True,
        1,
        1,
        2,
        1250,
    )


def test_one_cent_too_much_is_found_and_named() -> None:
    found = compare_rows({KEY: CELL}, {KEY: served(2, 1251)})

    assert not found.ok
    assert found.differences == [
        Difference("367", "2017-09-19T22:45:00.000Z", "revenue", 1250, 1251)
    ]


def test_window_that_is_served_but_unknown_to_the_oracle_is_a_difference() -> None:
    found = compare_rows({}, {KEY: served(1, 100)})

    assert (found.windows, found.equal, len(found.differences)) == (1, 0, 3)


def test_window_that_is_not_served_is_a_difference() -> None:
    assert not compare_rows({KEY: CELL}, {}).ok


def test_comparing_nothing_is_no_proof() -> None:
    assert not compare_rows({}, {}).ok


NINE = datetime(2017, 9, 19, 9, tzinfo=UTC)
CLAIMS = {
    NINE.date(): Generation(
        NINE.date(), 3, 1, NINE.replace(hour=8), NINE.replace(hour=10), 7, NINE, {}, {}
    )
}


@pytest.mark.parametrize(
    ("start", "source", "status", "complete", "honest"),
    [
        (NINE, "batch", "final", True, True),
        (NINE, "batch", "restated", True, True),
        (NINE, "batch", "provisional", False, True),
        (NINE, "speed", "provisional", False, True),
        (NINE, "speed", "final", True, False),
        (NINE, "missing", "provisional", False, False),
        (NINE.replace(hour=7, minute=45), "batch", "final", False, False),
        (NINE.replace(hour=7, minute=45), "batch", "provisional", False, True),
        (NINE.replace(hour=9, minute=45), "batch", "final", True, True),
        (NINE.replace(hour=10), "batch", "provisional", True, False),
        (NINE.replace(hour=10), "missing", "provisional", False, True),
        (NINE.replace(day=20), "batch", "final", True, False),
        (NINE.replace(day=20), "missing", "provisional", False, True),
    ],
)
def test_answer_may_claim_what_the_generation_of_its_day_does(
    start: datetime, source: str, status: str, complete: bool, honest: bool
) -> None:
    assert (
        is_claim_correct(
            {"source": source, "status": status, "complete": complete}, is_covered(CLAIMS, start)
        )
        is honest
    )
