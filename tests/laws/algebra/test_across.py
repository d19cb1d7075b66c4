"""Rows of several values of a dimension over one stretch are joined as what they are: sums add up,
and of levels each is read at its end before it is added."""

from collections.abc import Sequence
from functools import reduce

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from schemas.metric import MaximumShape, MaximumValue
from serving.cells.cells import NO_SPLIT, Cell, Split, build_cells, cell_values
from serving.merge.served import ServedWindow
from serving.questions.catalogue import Extreme, Metric
from tally.algebra.level import Level
from tally.algebra.merge import Axes, MergedWindow, Parts
from tally.algebra.parts import Part, Sum, Value
from tally.families.family import Family, join_across_axes
from tally.families.kind import LEVEL
from tally.time.windows import WINDOW, TimeRange
from tests.laws.algebra.test_parts import ALL, value
from tests.support.serving.serving_world import at

START = at("2026-11-23T10:00")
STOCK = Family("stock", ("item", "shelf"), (Level("pieces"), Sum("sold")), epoch=1, kind=LEVEL)
# No formula of the catalogue reads levels yet; this one gives what the rows were joined to.
ENTRY = MaximumShape(
    id="stock",
    name="Stock",
    unit="pieces",
    families=("stock",),
    formula="pieces",
    meaning="What there is.",
    variants=(),
    by=("item",),
    grains=("15m",),
    value=MaximumValue(max="pieces"),
)
PIECES = Metric(ENTRY, Extreme(STOCK, "pieces"))
ITEMS, WINDOWS = ("milk", "bread"), 3

# Instant, whether it is a count, how many.
Told = tuple[int, bool, int]
Stored = dict[str, list[Told]]
numbers = st.integers(-(10**6), 10**6)
told = st.tuples(st.integers(0, WINDOWS * 900 - 1), st.booleans(), numbers)
# Each item is counted once at least: of what nobody has counted there is no level.
counted = st.fixed_dictionaries(
    {item: st.lists(told, max_size=6).map(lambda some: [(0, True, 7), *some]) for item in ITEMS}
)
events = st.lists(st.tuples(st.integers(0, 9), numbers, st.sampled_from(ITEMS)), max_size=12)


def level_of(some: Sequence[Told]) -> int:
    """The last count and what moved after it, by hand; of one instant the count comes first, and
    of two counts of one instant the larger one is believed."""
    last = max((when, number) for when, is_count, number in some if is_count)
    moved = sum(number for when, is_count, number in some if not is_count and when >= last[0])
    return last[1] + moved


def cell_of(stored: Stored) -> Cell:
    """The cell of all windows, each of which has a row for every item that it has events of."""
    level, windows = Level("pieces"), []
    for number in range(WINDOWS):
        rows: dict[Axes, Parts] = {}
        for item, some in stored.items():
            here = [one for one in some if one[0] // 900 == number]
            brought = [
                Level.encode_count(n) if counts else Level.encode_movement(n)
                for _, counts, n in here
            ]
            if here:
                pieces = level.fold([when for when, *_ in here], brought)
                rows[item, "left"] = {"pieces": pieces, "sold": len(here)}
        windows.append((ServedWindow(MergedWindow("batch", 1, rows), "final"),))
    (cell,) = build_cells([STOCK], [TimeRange(START, START + WINDOWS * WINDOW)], windows)
    return cell


def level_in(stored: Stored, split: Split = NO_SPLIT) -> Value:
    return cell_values(PIECES, cell_of(stored), split)["value"]


def test_ten_of_one_item_and_five_of_another_are_fifteen() -> None:
    assert level_in({"milk": [(1, True, 10)], "bread": [(2, True, 5)]}) == 15


@given(counted)
def test_total_over_items_is_the_sum_of_their_levels(stored: Stored) -> None:
    assert level_in(stored) == sum(map(level_of, stored.values()))


@given(counted)
def test_level_of_one_item_is_its_own(stored: Stored) -> None:
    for item in ITEMS:
        assert level_in(stored, {"item": item}) == level_of(stored[item])


@given(st.lists(told.map(lambda one: (one[0], False, one[2])), min_size=1, max_size=4))
def test_total_is_not_known_while_one_of_the_items_was_never_counted(moved: list[Told]) -> None:
    assert level_in({"milk": [(0, True, 3)], "bread": moved}) is None


@pytest.mark.parametrize(
    "part", [one for one in ALL if not isinstance(one, Level)], ids=lambda one: type(one).__name__
)
@given(events=events)
def test_rows_of_any_other_part_are_the_value_of_all_their_events(
    part: Part, events: list[tuple[int, int, str]]
) -> None:
    rows = [
        value(part, [(when, number) for when, number, of in events if of == item]) for item in ITEMS
    ]

    assert join_across_axes(part, rows) == value(part, [one[:2] for one in events])


def test_sums_of_many_rows_have_no_bound() -> None:
    most = Sum("x").fold([0] * 10**2, [10**18] * 10**2)

    assert join_across_axes(Sum("x"), [most] * 3) == 3 * most


def test_a_part_that_no_row_has_is_left_out_and_one_that_some_have_is_of_those() -> None:
    rows = [{"sold": 2}, {}, {"sold": 3}]

    assert STOCK.join_across_axes(rows) == {"sold": 5}
    assert STOCK.join_across_axes([]) == {}


def joins_as_over_time(part: Part, rows: Sequence[Value]) -> Value:
    """The wrong rule: the later count forgets what was there of another item."""
    joined = reduce(part.join_over_time, rows, part.zero)
    return part.at_end(joined) if isinstance(part, Level) else joined


def test_rows_of_items_joined_as_if_they_were_stretches_break_the_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tally.families.family.join_across_axes", joins_as_over_time)
    assert level_in({"milk": [(1, True, 10)], "bread": [(2, True, 5)]}) == 5

    @settings(
        max_examples=500,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(counted)
    def holds(stored: Stored) -> None:
        assert level_in(stored) == sum(map(level_of, stored.values()))

    with pytest.raises(AssertionError):
        holds()
