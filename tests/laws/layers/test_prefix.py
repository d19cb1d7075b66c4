"""What is counted of a partition is a function of its records in their order: of no cut into
micro-batches, of no restart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speed_layer.state.partition_windows import NEVER, PartitionWindows, WindowRow
from speed_layer.state.records import ID_TYPE, Records
from tally.algebra.parts import Sum
from tally.time.windows import WINDOW_MILLIS

LATENESS = 2 * WINDOW_MILLIS
Key = tuple[str, int, str]
Rows = dict[Key, tuple[int, tuple[int, ...]]]


@dataclass(frozen=True)
class Sold:
    """One record; its place in the log is its offset."""

    store: str
    at: int
    identity: int
    currency: str
    cents: int

    @property
    def start(self) -> int:
        """Start of its window."""
        return self.at - self.at % WINDOW_MILLIS


# Around 1970, in the year 1 and today: halves of windows, so that records meet at their borders.
instants = st.builds(
    lambda year, half: year + half * 450_000,
    st.sampled_from([0, -62_135_596_800_000, 1_795_348_800_000]),
    st.integers(-4, 9),
)
sold = st.builds(
    Sold,
    st.sampled_from("abc"),
    instants,
    st.integers(1, 6),
    st.sampled_from(["EUR", "USD"]),
    st.integers(-9, 9),
)
PARTS = (Sum("receipts"), Sum("cents"))
logs = st.lists(sold, max_size=40)


def records_of(log: Sequence[Sold]) -> Records:
    """The records as the operator is given them."""
    names, currencies = sorted({one.store for one in log}), sorted({one.currency for one in log})
    return Records(
        np.array([names.index(one.store) for one in log], np.int64),
        names,
        np.array([one.at for one in log], np.int64),
        np.array([b"%016d" % one.identity for one in log], ID_TYPE),
        np.array([currencies.index(one.currency) for one in log], np.int64),
        [(name,) for name in currencies],
        np.array([(1, one.cents) for one in log], np.int64).reshape(-1, 2),
        PARTS,
    )


def by_the_rule(log: Sequence[Sold]) -> tuple[Rows, int]:
    """The rows of every window, and how many records were late, in plain Python."""
    frontier, late = NEVER, 0
    counted: dict[tuple[str, int], dict[int, Sold]] = {}
    for one in log:
        if one.start + WINDOW_MILLIS <= frontier - LATENESS:
            late += 1
        else:
            counted.setdefault((one.store, one.start), {}).setdefault(one.identity, one)
        frontier = max(frontier, one.at)
    rows: Rows = {}
    for (store, start), events in counted.items():
        for currency in {one.currency for one in events.values()}:
            cents = [one.cents for one in events.values() if one.currency == currency]
            rows[store, start, currency] = (len(events), (len(cents), sum(cents)))
    return rows, late


def taken(
    log: Sequence[Sold],
    cuts: Sequence[int],
    make: Callable[..., PartitionWindows] = PartitionWindows,
) -> tuple[Rows, int, PartitionWindows, list[WindowRow]]:
    """What the state makes of the log in these micro-batches, begun again from what is kept
    after each; all rows as they came."""
    pages: dict[tuple[int, int], bytes] = {}
    prefix, late = make(LATENESS, pages), 0
    told: list[WindowRow] = []
    bounds = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    for begin, end in pairwise(bounds):
        prefix = make(LATENESS, dict(prefix.pages), prefix.frontier, set(prefix.page_keys))
        told += prefix.take(records_of(log[begin:end]))
        late += prefix.late
    return (
        {(row.store, row.start, row.axes[0]): (row.events, row.parts) for row in told},
        late,
        prefix,
        told,
    )


@given(logs, st.lists(st.integers(0, 40), max_size=8))
def test_rows_and_late_records_are_those_of_the_rule_for_any_cut(
    log: list[Sold], cuts: list[int]
) -> None:
    rows, late, _, _ = taken(log, cuts)

    expected, expected_late = by_the_rule(log)
    # A currency that a later event did not touch is written again with its window.
    assert (rows, late) == (expected, expected_late)


@given(logs, st.lists(st.integers(0, 40), max_size=8))
def test_state_after_any_cut_is_the_same(log: list[Sold], cuts: list[int]) -> None:
    one, other = taken(log, cuts)[2], taken(log, [])[2]

    assert (one.frontier, one.page_keys) == (other.frontier, other.page_keys)
    assert {*one.pages} == one.page_keys


@given(logs)
def test_only_open_windows_are_kept(log: list[Sold]) -> None:
    _, _, prefix, _ = taken(log, [])

    assert all(start + WINDOW_MILLIS > prefix.frontier - LATENESS for start, _ in prefix.page_keys)


@given(logs, st.lists(st.integers(0, 40), max_size=8))
def test_rows_of_a_window_follow_each_other_with_one_count_of_events(
    log: list[Sold], cuts: list[int]
) -> None:
    told = taken(log, cuts)[3]

    for before, row in pairwise(told):
        if (before.store, before.start) == (row.store, row.start):
            assert before.events <= row.events


@given(logs, st.integers(0, 40), st.lists(st.integers(0, 40), max_size=8))
def test_state_of_another_computation_leaves_its_windows_alone_and_counts_the_next_ones_whole(
    log: list[Sold], position: int, cuts: list[int]
) -> None:
    before = taken(log[:position], cuts)[2]
    before.reset()
    told = list(before.take(records_of(log[position:])))

    rows = {(one.store, one.start, one.axes[0]): (one.events, one.parts) for one in told}
    whole = by_the_rule(log)[0]
    assert rows == {key: row for key, row in whole.items() if key[1] >= before.floor}
    assert before.below_floor == sum(one.start < before.floor for one in log[position:])
    # Nothing before it was of a window that is counted.
    assert all(one.start < before.floor for one in log[:position])


def behind_a_floor(
    log: Sequence[Sold],
    position: int,
    cuts: Sequence[int],
    make: Callable[..., PartitionWindows] = PartitionWindows,
) -> tuple[Rows, Rows]:
    """Rows of a state that begins at the position behind the floor, and of the first state those
    from there on."""
    below = log[:position]
    floor = max((one.start for one in below), default=NEVER) + WINDOW_MILLIS
    above = [one for one in log[position:] if one.start >= floor]
    anew, whole = taken(above, cuts, make)[0], taken(log, [], make)[0]
    return anew, {key: row for key, row in whole.items() if key[1] >= floor}


@given(logs, st.integers(0, 40), st.lists(st.integers(0, 40), max_size=5))
def test_state_behind_a_floor_counts_what_the_first_one_does(
    log: list[Sold], position: int, cuts: list[int]
) -> None:
    anew, whole = behind_a_floor(log, position, cuts)

    assert anew == whole
