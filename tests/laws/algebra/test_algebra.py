"""The parts' sums and the register are the algebra that lets any order, grouping and repetition
give one answer."""

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from runtime.registry.sources import SALES
from tally.algebra.merge import Parts, WindowState, newer_state
from tests.laws.layers.history import WINDOWS, Event, logs, merge_window, of_window, speed_state

add_parts = SALES.join_over_time
parts = st.dictionaries(
    st.sampled_from(
        ["receipts", "gross_minor", "units_milli"]
    ),  # An answer over many windows passes what one row may hold.
    st.one_of(st.integers(-(10**12), 10**12), st.integers(-(2**70), 2**70)),
)


@given(parts, parts, parts)
def test_adding_parts_is_associative(one: Parts, two: Parts, three: Parts) -> None:
    assert add_parts(add_parts(one, two), three) == add_parts(one, add_parts(two, three))


@given(parts, parts)
def test_adding_parts_is_commutative(one: Parts, two: Parts) -> None:
    assert add_parts(one, two) == add_parts(two, one)


@given(parts)
def test_nothing_is_the_zero_of_adding_parts(one: Parts) -> None:
    assert add_parts(one, {}) == one == add_parts({}, one)


def writes(log: list[Event]) -> list[WindowState | None]:
    """What any number of speed writers may write of one window: the state of each prefix, in any
    order and repeated."""
    return [
        speed_state(log, WINDOWS[0], accepted)
        for accepted in range(len(of_window(log, WINDOWS[0])) + 1)
    ]


@given(st.data(), logs())
def test_register_is_commutative_and_associative_over_the_writes_of_a_window(
    data: st.DataObject, log: list[Event]
) -> None:
    written = data.draw(st.lists(st.sampled_from(writes(log)), min_size=3, max_size=3))
    one, two, three = written

    assert (newer_state(one, two), newer_state(newer_state(one, two), three)) == (
        newer_state(two, one),
        newer_state(one, newer_state(two, three)),
    )


@given(logs())
def test_register_is_idempotent_and_has_a_zero(log: list[Event]) -> None:
    for state in writes(log):
        assert (
            newer_state(state, state)
            == newer_state(state, None)
            == newer_state(None, state)
            == state
        )


@given(st.data(), logs())
def test_any_order_of_writes_by_any_number_of_writers_leaves_the_same_row(
    data: st.DataObject, log: list[Event]
) -> None:
    repeated = [state for state in writes(log) for _ in range(2)]

    shuffled = data.draw(st.permutations(repeated))

    assert reduce(newer_state, shuffled, None) == writes(log)[-1]


@given(st.data(), logs())
def test_merging_is_idempotent(data: st.DataObject, log: list[Event]) -> None:
    state = data.draw(st.sampled_from(writes(log)))

    once = merge_window(state, state, covered=False)

    served = WindowState(state.epoch, state.events, once.values or {}) if state else None
    assert merge_window(served, state, covered=False) == once
