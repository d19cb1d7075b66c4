"""Messages that wait: the first ones of their lanes, whatever comes, changes and goes."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from runtime.outbound.engine import Lanes


class Waiting(NamedTuple):
    key: str
    lane_keys: tuple[str, ...]
    order: int
    due_at: int = 0
    attempts: int = 0


# A message is put, or removed, by its number.
Change = tuple[int, frozenset[str], int | None]
changes = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.frozensets(st.sampled_from("abc"), min_size=1),
        st.one_of(st.none(), st.integers(0, 99)),
    )
)


@given(changes)
def test_the_heads_are_those_that_no_other_one_precedes(made: Sequence[Change]) -> None:
    lanes: Lanes[Waiting] = Lanes()
    expected: dict[str, Waiting] = {}
    for number, names, order in made:
        if order is None:
            lanes.remove(f"{number}")
            expected.pop(f"{number}", None)
        else:
            # No two messages have one order.
            one = Waiting(f"{number}", tuple(sorted(names)), 10 * order + number)
            lanes.put(one)
            expected[one.key] = one

    assert dict(lanes) == expected
    assert {one.key for one in lanes.heads()} == {
        one.key
        for one in expected.values()
        if not any(
            other.order < one.order and {*other.lane_keys} & {*one.lane_keys}
            for other in expected.values()
        )
    }
