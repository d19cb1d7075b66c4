"""Two families may have parts and dimensions of the same names: each number of an answer is of
its own family."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from schemas.metric import RatioShape, RatioValue
from serving.cells.cells import (
    NO_SPLIT,
    Cell,
    FamilyWindows,
    build_cells,
    cell_values,
    values_in_cells,
)
from serving.merge.served import ServedWindow
from serving.questions.catalogue import Metric, WeightedSum, ratio
from tally.algebra.merge import Axes, MergedWindow, Parts
from tally.algebra.parts import Sum
from tally.families.family import Family
from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.serving_world import at

START = at("2026-11-23T10:00")
PHONES = Family("phones", axes=("zone", "kind"), parts=(Sum("visits"), Sum("seconds")), epoch=1)
DOORS = Family("doors", axes=("zone",), parts=(Sum("visits"), Sum("passers_by")), epoch=1)
ENTRY = RatioShape(
    id="capture",
    name="Capture",
    unit="fraction",
    families=("phones", "doors"),
    formula="visits / visits",
    value=RatioValue(numerator="phones", denominator="doors"),
    meaning="Of those who pass, those who come in.",
    variants=(),
    by=("zone",),
    grains=("15m",),
)
SHARE = Metric(ENTRY, WeightedSum(PHONES, {"visits": 1}), WeightedSum(DOORS, {"visits": 1}))

zones, kinds, counts = st.sampled_from("abc"), st.sampled_from("xy"), st.integers(-9, 9)


def served(values: dict[Axes, Parts]) -> ServedWindow:
    return ServedWindow(MergedWindow("batch", 1, values), "final")


def rows(*axes: st.SearchStrategy[str]) -> st.SearchStrategy[dict[Axes, Parts]]:
    return st.dictionaries(
        st.tuples(*axes), st.fixed_dictionaries({"visits": counts, "seconds": counts}), max_size=4
    )


windows = st.lists(
    st.tuples(rows(zones, kinds).map(served), rows(zones).map(served)), min_size=1, max_size=5
)


def whole(of: list[FamilyWindows]) -> Cell:
    (cell,) = build_cells(SHARE.families, [TimeRange(START, START + len(of) * WINDOW)], of)
    return cell


def summed(of: list[FamilyWindows], side: int) -> Counter[str]:
    """Visits by zone of one side, added up one by one."""
    found: Counter[str] = Counter()
    for window in of:
        for axes, parts in (window[side].merged.values or {}).items():
            found[axes[0]] += parts["visits"]
    return found


@given(windows)
def test_ratio_of_parts_of_one_name_takes_each_from_its_own_family(of: list[FamilyWindows]) -> None:
    above, below = (summed(of, side).total() for side in (0, 1))

    assert cell_values(SHARE, whole(of)) == {
        "value": ratio(above, below),
        "numerator": above,
        "denominator": below,
    }


@given(windows)
def test_split_by_a_shared_dimension_splits_each_family_by_its_own_values(
    of: list[FamilyWindows],
) -> None:
    above, below, cell = summed(of, 0), summed(of, 1), whole(of)

    assert values_in_cells([cell], SHARE.families, "zone") == {*above, *below}
    for zone in "abc":
        found = cell_values(SHARE, cell, {"zone": zone})
        assert (found["numerator"], found["denominator"]) == (above[zone], below[zone])


@given(windows)
def test_dimension_that_one_side_lacks_leaves_that_side_whole(of: list[FamilyWindows]) -> None:
    cell = whole(of)

    split, all_of_it = cell_values(SHARE, cell, {"kind": "x"}), cell_values(SHARE, cell, NO_SPLIT)

    assert split["denominator"] == all_of_it["denominator"]
    assert values_in_cells([cell], SHARE.families, "currency") == set()
