"""Versions and voids of receipts over both layers: after a rebuild each window has the last state
of each receipt, however often it was corrected, wherever its versions lie, and whichever came
first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.algebra.merge import WindowState
from tally.events.identity import cancellation_id, correction_id, reversal_id, version_id
from tally.events.receipt_rules import ChainEvent, effective_event_ids, parse_chain_position
from tests.laws.layers.history import (
    EPOCH,
    WINDOWS,
    Event,
    first_copies,
    merge_window,
    of_window,
    speed_of,
    speed_state,
    total,
    values_of,
)

DIGESTS = ("0" * 32, "f" * 32)
RECEIPTS = ("pos:1:1:0:41", "pos:1:1:0:42")


@dataclass(frozen=True)
class ReceiptEvent(Event):
    """A version or void of a receipt; `closed_at` is when its receipt was closed."""

    closed_at: str = ""


@st.composite
def histories(draw: st.DrawFn) -> list[ReceiptEvent]:
    """Up to 10 versions and voids of two receipts; each says the same whenever it comes again."""
    identities = st.sampled_from(RECEIPTS).flatmap(
        lambda receipt: st.one_of(
            st.integers(0, 3).map(lambda number: version_id(receipt, number)),
            st.sampled_from(DIGESTS).map(lambda digest: correction_id(receipt, digest)),
            st.sampled_from(DIGESTS).map(lambda digest: cancellation_id(receipt, digest)),
            st.sampled_from([None, 0, 1, 2]).map(lambda until: reversal_id(receipt, until)),
        )
    )
    said: dict[str, tuple[int, int, str]] = {}
    shapes = st.tuples(st.sampled_from(WINDOWS), st.integers(1, 9), st.sampled_from("abc"))
    log = []
    for offset, identity in enumerate(draw(st.lists(identities, max_size=10))):
        window, amount, closed_at = said.setdefault(identity, draw(shapes))
        place = parse_chain_position(identity)
        value = -amount if place.is_void else 0 if place.is_cancellation else amount
        log.append(ReceiptEvent(identity, window, offset, value, closed_at=closed_at))
    return log


def counting(log: Sequence[ReceiptEvent]) -> set[str]:
    return effective_event_ids(
        ChainEvent(event.identity, cast(ReceiptEvent, event).closed_at, event.offset)
        for event in first_copies(log).values()
    )


def last_states(log: Sequence[ReceiptEvent]) -> list[int]:
    """By window what counts at the end, by replaying each receipt's versions in their own order."""
    held = [cast(ReceiptEvent, event) for event in first_copies(log).values()]

    def in_order(event: ReceiptEvent) -> tuple[int, int, str, int, int]:
        place = parse_chain_position(event.identity)
        return place.revision, place.is_void, event.closed_at, place.kind, event.offset

    states: dict[str, ReceiptEvent | None] = {}
    for event in sorted(held, key=in_order):
        place = parse_chain_position(event.identity)
        states[place.chain] = None if place.is_void else event
    cancelled: dict[str, str] = {}
    for event in held:
        place = parse_chain_position(event.identity)
        if place.is_cancellation:
            cancelled[place.chain] = max(event.closed_at, cancelled.get(place.chain, ""))
    kept = [
        event
        for chain, event in states.items()
        if event is not None and event.closed_at > cancelled.get(chain, "")
    ]
    return [sum(event.amount for event in kept if event.window == window) for window in WINDOWS]


def batch_state(log: Sequence[ReceiptEvent], window: int, until: int) -> WindowState | None:
    """What a rebuild over the log below `until` holds: what does not count is excluded; a void of
    a receipt that has not come waits, and nothing is taken off for it."""
    below = [event for event in log if event.offset < until]
    held, counted = first_copies(below), counting(below)
    here = [event for event in held.values() if event.window == window]
    places = [parse_chain_position(identity) for identity in held]
    known = {place.chain for place in places if not place.is_void}
    excluded = [
        event
        for event in here
        if event.identity not in counted and parse_chain_position(event.identity).chain in known
    ]
    kept = [event for event in here if event.identity in counted]
    zero = values_of([Event("", window, 0, 0)]) if here else {}
    values = zero | values_of(kept)
    return WindowState(EPOCH, len(here), values, values_of(excluded)) if here else None


def served(log: Sequence[ReceiptEvent], until: int, accepted: Sequence[int]) -> list[int]:
    return [
        cast(
            int,
            total(
                merge_window(
                    speed_state(log, window, accepted[window]),
                    batch_state(log, window, until),
                    True,
                )
            ),
        )
        for window in WINDOWS
    ]


@given(histories(), st.data())
def test_after_a_rebuild_each_window_has_the_last_versions(
    log: list[ReceiptEvent], data: st.DataObject
) -> None:
    accepted = [data.draw(st.integers(0, len(of_window(log, window)))) for window in WINDOWS]

    assert served(log, len(log), accepted) == last_states(log)


@given(histories())
def test_sets_of_a_window_are_nested_whatever_versions_come(log: list[ReceiptEvent]) -> None:
    assert not broken_registers(log, lambda events: events)


def test_a_revision_that_replaces_its_event_is_found() -> None:
    """The wrong rule: the speed layer keeps one event for each receipt."""

    def replacing(events: Sequence[Event]) -> list[Event]:
        return [*{parse_chain_position(event.identity).chain: event for event in events}.values()]

    log = [
        ReceiptEvent(RECEIPTS[0], 0, 0, 5),
        ReceiptEvent(version_id(RECEIPTS[0], 1), 0, 1, 7),
    ]

    assert broken_registers(log, replacing)
    assert not broken_registers(log, lambda events: events)


def broken_registers(
    log: Sequence[Event], keep: Callable[[Sequence[Event]], Sequence[Event]]
) -> list[int]:
    """Windows of which two prefixes have as many events and other values, or fewer than before."""
    found = []
    for window in WINDOWS:
        here = of_window(log, window)
        states = [speed_of(keep(here[:count])) for count in range(len(here) + 1)]
        known = [state for state in states if state is not None]
        for before, after in pairwise(known):
            is_equal = before.events == after.events
            if after.events < before.events or (is_equal and before.values != after.values):
                found.append(window)
    return found


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(log: list[ReceiptEvent], random: Random) -> None:
    """Where numbers or times tell which version is the later one."""
    ranked = [
        (
            *parse_chain_position(event.identity)[:3],
            event.closed_at,
            parse_chain_position(event.identity).kind,
        )
        for event in first_copies(log).values()
        if isinstance(event, ReceiptEvent)
    ]
    if len({*ranked}) < len(ranked):
        return
    shuffled = [*log]
    random.shuffle(shuffled)
    again = [
        ReceiptEvent(event.identity, event.window, offset, event.amount, closed_at=event.closed_at)
        for offset, event in enumerate(shuffled)
    ]

    assert last_states(again) == last_states(log)
    assert counting(again) == counting(log)


@pytest.mark.parametrize(
    ("known", "named", "taken"),
    [
        (["pos:1:3:0:000042"], "pos:1:3:0:42", ["pos:1:3:0:000042"]),
        (["pos:1:3:0:42"], "pos:1:3:0:000042", ["pos:1:3:0:42"]),
        # What is called so exactly goes before what is equal but for zeros.
        (["pos:1:3:0:042", "pos:1:3:0:42"], "pos:1:3:0:42", ["pos:1:3:0:42"]),
        # Of two that are equal but for zeros neither is meant.
        (["pos:1:3:0:042", "pos:1:3:0:0042"], "pos:1:3:0:42", []),
        (["pos:1:3:0:42", "pos:1:3:0:421"], "pos:1:3:0:42", ["pos:1:3:0:42"]),
        (["pos:1:3:0:A042"], "pos:1:3:0:A42", []),
    ],
)
def test_a_void_finds_its_receipt_by_the_number_without_zeros(
    known: list[str], named: str, taken: list[str]
) -> None:
    events = [ChainEvent(name, "a", offset) for offset, name in enumerate(known)]
    void = ChainEvent(reversal_id(named), "b", len(known))

    assert effective_event_ids([*events, void]) == {*known} - {*taken}
