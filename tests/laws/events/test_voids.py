"""Voids over both layers: what is served of a receipt and its void adds up to nothing, however far
each layer has read, wherever the two lie, and in whichever order they come."""

from collections.abc import Mapping, Sequence
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.merge import WindowState
from tally.events.identity import REVERSAL, reversal_id
from tests.laws.layers.history import (
    EPOCH,
    WINDOWS,
    Event,
    first_copies,
    merge_window,
    of_window,
    speed_state,
    total,
    values_of,
)


def logs() -> st.SearchStrategy[list[Event]]:
    """Up to 12 sales and voids of four receipts; copies come again as they were."""
    said = st.tuples(st.sampled_from("abcd"), st.booleans())
    shapes = st.fixed_dictionaries(
        {
            identity: st.tuples(
                st.sampled_from(WINDOWS), st.sampled_from(WINDOWS), st.integers(1, 9)
            )
            for identity in "abcd"
        }
    )
    return st.builds(_log, st.lists(said, max_size=12), shapes)


def _log(said: Sequence[tuple[str, bool]], shapes: dict[str, tuple[int, int, int]]) -> list[Event]:
    events = []
    for offset, (identity, is_void) in enumerate(said):
        sold_in, voided_in, amount = shapes[identity]
        events.append(
            Event(reversal_id(identity), voided_in, offset, -amount)
            if is_void
            else Event(identity, sold_in, offset, amount)
        )
    return events


def batch_state(log: Sequence[Event], window: int, until: int) -> WindowState | None:
    """What a rebuild over the log below `until` holds: receipts that are taken back are excluded,
    and so is each void; one that waits adds nothing to either."""
    held = first_copies(event for event in log if event.offset < until)
    here = [event for event in held.values() if event.window == window]
    excluded = [event for event in here if is_taken_back(event, held)]
    # Of a void that waits the speed layer keeps what it has: it may know the receipt.
    taken_off = [event for event in excluded if event.identity.removeprefix(REVERSAL) in held]
    counted = [event for event in here if event not in excluded]
    zero = values_of([Event("", window, 0, 0)]) if here else {}
    values = zero | values_of(counted)
    return WindowState(EPOCH, len(here), values, values_of(taken_off)) if here else None


def is_taken_back(event: Event, held: Mapping[str, Event]) -> bool:
    return event.identity.startswith(REVERSAL) or reversal_id(event.identity) in held


def served(log: Sequence[Event], until: int, accepted: Sequence[int]) -> list[int]:
    """The total of each window that is served."""
    totals = []
    for window in WINDOWS:
        speed = speed_state(log, window, accepted[window])
        merged = merge_window(speed, batch_state(log, window, until), True)
        totals.append(cast(int, total(merged)))
    return totals


def true_totals(log: Sequence[Event]) -> list[int]:
    """What the receipts come to that nobody takes back."""
    held = first_copies(log)
    kept = [event for event in held.values() if not is_taken_back(event, held)]
    return [sum(event.amount for event in kept if event.window == window) for window in WINDOWS]


def whole(log: Sequence[Event]) -> list[int]:
    return [len(of_window(log, window)) for window in WINDOWS]


@given(logs(), st.data())
def test_after_a_rebuild_each_window_has_what_nobody_takes_back(
    log: list[Event], data: st.DataObject
) -> None:
    accepted = [data.draw(st.integers(0, count)) for count in whole(log)]

    assert served(log, len(log), accepted) == true_totals(log)


@given(logs(), st.data())
def test_at_any_moment_all_windows_together_have_what_nobody_takes_back(
    log: list[Event], data: st.DataObject
) -> None:
    """Of voids that come behind their receipts, as tills make them."""
    sold = {event.identity: event.offset for event in reversed(log)}
    behind = [
        event
        for event in log
        if sold.get(event.identity.removeprefix(REVERSAL), event.offset + 1) <= event.offset
    ]
    until = data.draw(st.integers(0, len(log)))

    assert sum(served(behind, until, whole(behind))) == sum(true_totals(behind))


@given(logs(), st.data())
def test_a_receipt_and_its_void_in_one_window_are_nothing_as_soon_as_both_are_seen(
    log: list[Event], data: st.DataObject
) -> None:
    together = [
        Event(event.identity, 0, event.offset, event.amount) for event in log if event.amount
    ]
    until = data.draw(st.integers(0, len(log)))
    held = first_copies(together)
    paired = [one for one in held if reversal_id(one) in held]
    both = [held[one] for one in paired] + [held[reversal_id(one)] for one in paired]

    assert served(both, until, whole(both)) == [0, 0]
