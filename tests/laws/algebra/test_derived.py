"""Derived families: what was told of a window may be taken back, and no old row comes back.

A log of what a family of visits has said of one window, in order of positions: the speed layer
holds it as far as it has read, a rebuild as far as it was pinned."""

from collections.abc import Sequence
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.merge import (
    MISSING,
    Axes,
    MergedWindow,
    Parts,
    WindowState,
    newer_state,
    register,
)
from tally.algebra.parts import Sum
from tally.families.kind import ADDITIVE, DERIVED, Kind

PARTS = (Sum("visits"),)
# What the window holds after each position: sessions grow, move on, and leave it empty again.
logs = st.lists(st.integers(0, 5), min_size=1, max_size=8)


def speed_row(log: Sequence[int], read: int) -> WindowState | None:
    """The row once so many positions were read; an emptied window keeps one, of zeros."""
    said = any(log[:read])
    return WindowState(1, read, {(): {"visits": log[read - 1]}}) if said else None


def batch_row(log: Sequence[int], pinned: int) -> WindowState | None:
    """The row of a rebuild: none where nothing is left."""
    held = log[pinned - 1] if pinned else 0
    return WindowState(1, held, {(): {"visits": held}}) if held else None


def visits(window: MergedWindow) -> int:
    return sum(parts["visits"] for parts in (window.values or {}).values())


def check_serves_who_knows(kind: Kind, log: Sequence[int], read: int, pinned: int) -> None:
    """A closed window is as the rebuild has it, an open one as the speed layer has it."""
    speed, batch = speed_row(log, read), batch_row(log, pinned)

    closed = kind.merge(PARTS, speed, batch, covered=True)
    not_vouched_for = kind.merge(PARTS, speed, batch, covered=False)
    still_open = kind.merge(PARTS, speed, None, covered=False)

    held = log[pinned - 1] if pinned else 0
    assert (closed.source, visits(closed)) == ("batch", held)
    assert batch is None or not_vouched_for == closed
    assert visits(still_open) == (log[read - 1] if speed else 0)
    assert (still_open == MISSING) == (speed is None)


@given(st.data(), logs)
def test_closed_window_is_the_rebuild_s_and_an_open_one_the_speed_layer_s(
    data: st.DataObject, log: list[int]
) -> None:
    places = st.integers(0, len(log))

    check_serves_who_knows(DERIVED, log, data.draw(places), data.draw(places))


def test_rule_of_additive_families_would_bring_back_what_was_taken_back() -> None:
    with pytest.raises(AssertionError):
        check_serves_who_knows(ADDITIVE, [3, 3, 1], read=2, pinned=3)


@given(st.data(), logs)
def test_any_order_of_writes_leaves_the_row_of_the_last_position(
    data: st.DataObject, log: list[int]
) -> None:
    written = [speed_row(log, read) for read in range(len(log) + 1)]

    shuffled = data.draw(st.permutations([*written, *written]))

    assert reduce(newer_state, shuffled, None) == written[-1]


@given(st.integers(0, 2**39), st.integers(0, 2**39), st.integers(1, 3))
def test_later_position_overrules_and_a_higher_epoch_does_first(
    one: int, other: int, epoch: int
) -> None:
    assert (register(epoch, one) > register(epoch, other)) == (one > other)
    assert register(epoch + 1, one) > register(epoch, other)


@pytest.mark.parametrize(
    ("speed", "batch", "covered", "told"),
    [
        (None, None, False, "missing: no generation covers the window and the speed layer has no"),
        (2, None, False, "speed: no generation covers the window yet; what it holds may still"),
        (2, 1, False, "batch: its row is of a closed window; no generation vouches"),
        (2, 1, True, "batch: everything in the window is closed, by a generation; its row"),
        (2, 0, True, "batch: everything in the window is closed, by a generation; no row, a true"),
    ],
)
def test_sentence_says_which_side_and_why(
    speed: int | None, batch: int | None, covered: bool, told: str
) -> None:
    def row(held: int | None) -> WindowState | None:
        values: dict[Axes, Parts] = {(): {"visits": held}} if held else {}
        return None if held is None else WindowState(1, held, values)

    assert DERIVED.explain_choice(row(speed), row(batch), covered).startswith(told)
