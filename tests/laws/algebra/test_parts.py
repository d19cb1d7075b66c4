"""Each class of part is a commutative monoid, and keeps the laws of the merge that sums keep.

So WiFi may bring sketches and stock may bring levels, and no rule of the layers changes."""

from collections.abc import Sequence
from functools import partial, reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.level import Level
from tally.algebra.parts import (
    MAX_PART,
    MAX_SUM,
    Count,
    Histogram,
    KeyedSpans,
    KeyedSum,
    Max,
    Min,
    Part,
    Sum,
    Uniques,
    Value,
)
from tally.families.family import Family
from tally.families.kind import ADDITIVE, LEVEL, Kind
from tally.time.windows import WINDOW_SECONDS
from tests.laws.alerting.worlds.rules import check_conflicts_stay_away, check_equals_recompute
from tests.laws.layers.history import WINDOWS, Event, cuts, logs, speed_of, speed_state

ALL = [
    *(Sum("x"), Count("x"), Min("x"), Max("x"), Uniques("x"), Histogram("x")),
    *(KeyedSum("x"), KeyedSpans("x"), Level("x")),
]
OF_KINDS = [*((ADDITIVE, part) for part in ALL), (LEVEL, Level("x")), (LEVEL, Sum("x"))]

numbers = st.one_of(
    st.integers(0, 70), st.integers(-(10**6), 10**6), st.integers(-MAX_PART, MAX_PART)
)
# Instants of now and of long ago, and few of them, so that they meet.
brought = st.lists(
    st.tuples(st.sampled_from([-62_135_596_800_000, 0, 1, 2, 1_795_348_800_000]), numbers),
    max_size=12,
)

by_part = pytest.mark.parametrize("part", ALL, ids=lambda part: type(part).__name__)
by_kind = pytest.mark.parametrize(
    ("kind", "part"), OF_KINDS, ids=lambda one: getattr(one, "name", "") or type(one).__name__
)


def value(part: Part, events: Sequence[tuple[int, int]]) -> Value:
    return part.fold([at for at, _ in events], [number for _, number in events])


@by_part
@given(events=brought, more=brought, most=brought)
def test_plus_is_associative_and_commutative(
    part: Part,
    events: list[tuple[int, int]],
    more: list[tuple[int, int]],
    most: list[tuple[int, int]],
) -> None:
    one, two, three = value(part, events), value(part, more), value(part, most)

    assert part.plus(part.plus(one, two), three) == part.plus(one, part.plus(two, three))
    assert part.plus(one, two) == part.plus(two, one)


@by_part
@given(events=brought)
def test_zero_is_the_value_of_nothing_and_changes_nothing(
    part: Part, events: list[tuple[int, int]]
) -> None:
    one = value(part, events)

    assert value(part, []) == part.zero
    assert part.plus(one, part.zero) == part.plus(part.zero, one) == one


@by_part
@given(data=st.data(), events=brought)
def test_any_order_and_any_cut_give_the_value_of_all(
    part: Part, data: st.DataObject, events: list[tuple[int, int]]
) -> None:
    shuffled = data.draw(st.permutations(events))
    size = data.draw(st.integers(1, 4))
    cut = [shuffled[begin : begin + size] for begin in range(0, len(shuffled), size)]

    assert reduce(part.plus, (value(part, some) for some in cut), part.zero) == value(part, events)


@pytest.mark.parametrize("part", [one for one in ALL if one.is_invertible], ids=repr)
@given(events=brought, more=brought)
def test_what_was_added_can_be_taken_back(
    part: Part, events: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    one, two = value(part, events), value(part, more)

    assert part.minus(part.plus(one, two), two) == one


@pytest.mark.parametrize("part", [one for one in ALL if not one.is_invertible], ids=repr)
def test_part_that_takes_nothing_back_says_so(part: Part) -> None:
    with pytest.raises(NotImplementedError, match="takes nothing back"):
        part.minus(part.zero, part.zero)


@by_kind
@given(data=st.data(), log=logs())
def test_any_split_between_batch_and_speed_equals_a_full_recompute(
    kind: Kind, part: Part, data: st.DataObject, log: list[Event]
) -> None:
    check_equals_recompute(partial(kind.merge, (part,)), log, data.draw(cuts(log)), part)


@by_kind
@given(data=st.data(), log=logs())
def test_conflict_that_batch_took_back_never_comes_back(
    kind: Kind, part: Part, data: st.DataObject, log: list[Event]
) -> None:
    check_conflicts_stay_away(partial(kind.merge, (part,)), log, data.draw(cuts(log)), part)


@by_part
@given(data=st.data(), log=logs())
def test_redelivery_in_any_order_changes_nothing(
    part: Part, data: st.DataObject, log: list[Event]
) -> None:
    window, copies = data.draw(st.sampled_from(WINDOWS)), data.draw(st.integers(1, 3))
    received = [event for event in log if event.window == window]

    shuffled = data.draw(st.permutations(received * copies))

    assert speed_of(shuffled, part) == speed_state(log, window, len(received), part)


@by_part
@given(earlier=brought, later=brought)
def test_two_stretches_are_the_value_of_all_their_events(
    part: Part, earlier: list[tuple[int, int]], later: list[tuple[int, int]]
) -> None:
    family = Family("any", (), (part,), epoch=1)
    joined = family.join_over_time({"x": value(part, earlier)}, {"x": value(part, later)})

    assert joined == {"x": value(part, [*earlier, *later])}


def test_spans_end_with_their_window_and_are_one_where_they_meet() -> None:
    spans, minute = KeyedSpans("x"), KeyedSum.encode(7, 60)

    told = spans.fold([0, 60_000, 30_000, 870_000], [minute] * 4)

    assert told == [[7, spans.encode_span(0, 120)], [7, spans.encode_span(870, 30)]]
    assert spans.seconds_by_key(told) == {7: 150}
    assert spans.SECONDS == WINDOW_SECONDS


def test_sum_ends_at_its_bounds() -> None:
    assert Sum("x").plus(MAX_SUM, MAX_PART) == MAX_SUM
    assert Sum("x").fold([0] * 3, [-MAX_SUM, -MAX_SUM, 5]) == -MAX_SUM


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), max_size=12))
def test_level_is_the_last_count_and_what_moved_after_it(moves: list[tuple[int, int]]) -> None:
    stock, count = Level("x"), (5, Level.encode_count(100))
    events = [*((at, Level.encode_movement(number)) for at, number in moves), count]

    expected = 100 + sum(number for at, number in moves if at >= 5)

    assert stock.at_end(value(stock, events)) == expected


def test_level_that_nobody_has_counted_is_not_known() -> None:
    assert Level("x").at_end(value(Level("x"), [(1, Level.encode_movement(4))])) is None


@given(st.sets(st.integers(0, MAX_PART), max_size=40))
def test_few_uniques_are_counted_exactly(digests: set[int]) -> None:
    uniques = Uniques("x")

    assert uniques.estimate(value(uniques, [(0, one) for one in digests] * 2)) == len(digests)


@pytest.mark.parametrize("subjects", [5_000, 100_000])
def test_many_uniques_are_estimated_within_three_standard_errors(subjects: int) -> None:
    uniques, spread = Uniques("x"), 982_451_653
    digests = [(number * spread * spread) % MAX_PART for number in range(1, subjects + 1)]

    estimate = uniques.estimate(uniques.fold([0] * subjects, digests))

    assert abs(estimate / subjects - 1) < 3 / (Uniques.SKETCH_SIZE - 2) ** 0.5


@given(st.lists(st.integers(0, MAX_PART), min_size=1, max_size=50), st.floats(0.01, 1))
def test_percentile_is_the_lower_end_of_the_bucket_of_that_rank(
    sizes: list[int], share: float
) -> None:
    histogram = Histogram("x")
    rank = next(number for number in range(len(sizes)) if number + 1 >= share * len(sizes))

    exact = sorted(sizes)[rank]

    found = histogram.percentile(histogram.fold([0] * len(sizes), sizes), share)
    assert found == Histogram.bucket(exact)
    assert found <= exact <= found * (1 + 2 ** (1 - Histogram.STEPS)) + 1
