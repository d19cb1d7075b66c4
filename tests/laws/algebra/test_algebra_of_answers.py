"""An answer at any grain is made of the same parts: cutting time differently changes no total,
and ratios are sums over sums."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.registry.sources import SALES
from serving.cells.cells import Cell, build_cells, cell_values
from serving.merge.served import UNKNOWN, ServedWindow
from serving.questions import catalogue
from tally.algebra.merge import MergedWindow
from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.serving_world import at

START = at("2017-10-29T00:00")
SUMS = ("transactions", "revenue", "gross_revenue", "units")
counts = st.tuples(*(st.integers(0, 10**9) for _ in SALES.parts)).map(
    lambda values: dict(zip(SALES.part_names, values, strict=True))
)
known = counts.map(lambda parts: ServedWindow(MergedWindow("batch", 1, {("USD",): parts}), "final"))
days = st.lists(st.one_of(known, st.just(UNKNOWN)), min_size=1, max_size=24)


def cut(windows: Sequence[ServedWindow], ends: Sequence[int]) -> list[Cell]:
    """The windows in stretches that end before the numbered ones."""
    edges = sorted({0, len(windows), *(end for end in ends if end < len(windows))})
    slots = [
        TimeRange(START + first * WINDOW, START + last * WINDOW) for first, last in pairwise(edges)
    ]
    return build_cells([SALES], slots, [(window,) for window in windows])


@pytest.mark.parametrize("name", SUMS)
@given(windows=days, ends=st.lists(st.integers(1, 23)))
def test_cutting_time_differently_changes_no_total(
    name: str, windows: list[ServedWindow], ends: list[int]
) -> None:
    metric = catalogue.metric(name)

    parts = [cell_values(metric, cell)["value"] for cell in cut(windows, ends)]

    (whole,) = cut(windows, [])
    expected = cell_values(metric, whole)["value"]
    assert sum(part for part in parts if part is not None) == pytest.approx(expected or 0, abs=1e-6)


@given(windows=days, ends=st.lists(st.integers(1, 23)))
def test_ratio_of_a_longer_stretch_is_sum_over_sum(
    windows: list[ServedWindow], ends: list[int]
) -> None:
    basket = catalogue.metric("average_basket")

    pieces = [cell_values(basket, cell) for cell in cut(windows, ends)]

    (whole,) = cut(windows, [])
    sums = [sum(piece[side] or 0 for piece in pieces) for side in ("numerator", "denominator")]
    assert cell_values(basket, whole)["value"] == catalogue.ratio(*sums)


def test_average_of_ratios_is_another_number() -> None:
    baskets = [(1, 1_000), (3, 600)]
    windows = [
        ServedWindow(
            MergedWindow("batch", 1, {("USD",): {"receipts": n, "gross_minor": gross}}),
            "final",
        )
        for n, gross in baskets
    ]

    (whole,) = cut(windows, [])

    assert (
        cell_values(catalogue.metric("average_basket"), whole)["value"]
        == 400
        != (1_000 / 1 + 600 / 3) / 2
    )


@given(windows=days, ends=st.lists(st.integers(1, 23)))
def test_stretch_is_missing_only_if_every_quarter_hour_is(
    windows: list[ServedWindow], ends: list[int]
) -> None:
    for cell in cut(windows, ends):
        first, last = (round((instant - START) / timedelta(minutes=15)) for instant in cell.slot)
        assert cell.is_missing == all(window is UNKNOWN for window in windows[first:last])
        assert (cell_values(catalogue.metric("revenue"), cell)["value"] is None) == cell.is_missing
