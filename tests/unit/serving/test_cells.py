from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from runtime.registry.sources import SALES, TRAFFIC
from serving.cells.cells import (
    Cell,
    build_cells,
    cell_values,
    common_source,
    format_row,
    weakest_status,
)
from serving.merge.served import UNKNOWN, ServedWindow, Status
from serving.questions import catalogue
from tally.algebra.merge import MergedWindow, WindowSource
from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.serving_world import at

START = at("2017-09-19T10:00")
REVENUE, BASKET, UNITS = (catalogue.metric(name) for name in ("revenue", "average_basket", "units"))


def window(gross: int, source: WindowSource = "batch", status: Status = "final") -> ServedWindow:
    parts = {
        "receipts": 1,
        "gross_minor": gross,
        "returns_minor": 0,
        "voids_minor": 0,
        "discounts_minor": 0,
        "returned_receipts": 0,
        "non_sales_minor": 0,
        "units_milli": 1500,
    }
    return ServedWindow(MergedWindow(source, 1, {("USD",): parts}), status)


def hour(*windows: ServedWindow) -> Cell:
    (cell,) = build_cells(
        [SALES], [TimeRange(START, START + timedelta(hours=1))], [(one,) for one in windows]
    )
    return cell


def test_stretch_with_missing_windows_is_the_sum_of_the_others_and_says_so() -> None:
    cell = hour(window(100), UNKNOWN, window(50), UNKNOWN)
    assert format_row(cell, cell_values(REVENUE, cell), ("a", "b")) == {
        "start": "a",
        "end": "b",
        "value": 150,
        "events": 2,
        "source": "mixed",
        "status": "provisional",
        "complete": False,
    }


def test_stretch_without_any_window_is_null() -> None:
    cell = hour(*[UNKNOWN] * 4)
    row = format_row(cell, cell_values(REVENUE, cell), ("a", "b"))
    assert (row["value"], row["events"], row["source"], row["complete"]) == (
        None,
        None,
        "missing",
        False,
    )


def test_one_restated_window_restates_the_stretch() -> None:
    assert (
        weakest_status(hour(window(1), window(1, status="restated"), window(1), window(1)).statuses)
        == "restated"
    )


def test_one_speed_window_makes_the_stretch_mixed_and_provisional() -> None:
    cell = hour(window(1), window(1, "speed", "provisional"), window(1), window(1))
    assert (common_source(cell.sources), weakest_status(cell.statuses)) == ("mixed", "provisional")


def test_ratio_of_a_stretch_is_sum_by_sum_and_no_average_of_ratios() -> None:
    cell = hour(window(100), window(200), window(301), window(0))
    assert cell_values(BASKET, cell) == {"value": 150.25, "numerator": 601, "denominator": 4}


def test_window_that_one_family_misses_counts_for_neither_side_of_a_ratio() -> None:
    traffic = ServedWindow(MergedWindow("batch", 1, {(): {"entries": 10}}), "final")
    cell = Cell(TimeRange(START, START + 2 * WINDOW))
    cell.add((SALES, TRAFFIC), (window(100), traffic))
    cell.add((SALES, TRAFFIC), (window(100), UNKNOWN))
    assert cell_values(catalogue.metric("conversion"), cell) == {
        "value": 0.1,
        "numerator": 1,
        "denominator": 10,
    }


def test_units_keep_their_thousandths() -> None:
    cell = hour(*[window(0)] * 3, UNKNOWN)
    assert cell_values(UNITS, cell) == {"value": 4.5}


@given(st.lists(st.integers(0, 10**9), min_size=96, max_size=96))
def test_day_is_the_sum_of_its_hours(amounts: list[int]) -> None:
    windows = [(window(amount),) for amount in amounts]
    hours = [
        TimeRange(START + timedelta(hours=n), START + timedelta(hours=n + 1)) for n in range(24)
    ]
    (day,) = build_cells([SALES], [TimeRange(START, START + timedelta(days=1))], windows)
    parts = [cell_values(REVENUE, cell)["value"] for cell in build_cells([SALES], hours, windows)]
    assert (
        cell_values(REVENUE, day)["value"]
        == sum(part for part in parts if part is not None)
        == sum(amounts)
    )
