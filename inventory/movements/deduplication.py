"""The events that have moved stock: each moves it once, by the first copy that arrived.

    take(sale)          its movements; it is known from now on
    take(sale again)    nothing, even if the copy differs
    take(void of it)    the same movements with the other sign, at the instant of the sale
    take(void first)    nothing; the sale, when it comes, moves nothing either
    take(a revision)    the movements of the sale with the other sign, and its own
    learn(filed sale)   a sale older than the memory of events, before its copy or its void

This is how a rebuild counts them (tally/events/receipt_rules.py): the last version of a receipt
counts, if no void comes after it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct

from inventory.movements.movement import MovementKind, StockMovement
from tally.events.receipt_rules import ChainEvent, parse_chain_position, rank


class LineEffect(Struct, frozen=True, array_like=True):
    """The effect of a line; `line`: its place on the receipt, from 1; amounts in thousandths."""

    line: int
    item_id: str
    kind: MovementKind
    delta_milli: int | None = None
    counted_milli: int | None = None


class StockEvent(NamedTuple):
    """A receipt, or a line of a document, and its moves if it is the first copy."""

    event_id: str
    store_id: str
    happened_at: str
    fingerprint: str
    source: str
    effects: tuple[LineEffect, ...]


class StoredEvent(Struct, frozen=True, kw_only=True):
    """The stored first copy of an event; `at`: its arrival, milliseconds since 1970 (UTC).

    `moves`: what a void or a later version of it reverses.
    """

    offset: int
    fingerprint: str
    at: int
    happened_at: str
    moves: tuple[LineEffect, ...] = ()


# Identities, each with the event that was seen and forgotten since.
FiledEvents = Iterable[tuple[str, StoredEvent]]


class EventMovements(NamedTuple):
    """The movements of an event, and its record; the record is None for a known event."""

    movements: list[StockMovement]
    stored: StoredEvent | None


class EventDeduplicator:
    """The events of one partition of both topics, in the order of arrival."""

    def __init__(self) -> None:
        self._events: dict[str, StoredEvent] = {}
        # The events of each receipt, and the last one of them, which decides what counts.
        self._chains: dict[str, set[str]] = defaultdict(set)
        self._last_ids: dict[str, str] = {}
        # Events that were looked up: their reversals arrive after they had been forgotten.
        self._filed_ids: set[str] = set()

    def add_filed(self, filed: FiledEvents) -> None:
        """Remember events, by identity, that were seen and forgotten since."""
        for event_id, stored in filed:
            if event_id not in self._events:
                self._store(event_id, stored)
                self._filed_ids.add(event_id)

    def process_event(self, event: StockEvent, offset: int, at: int) -> EventMovements:
        """The movements of the event; `at`: its arrival, milliseconds since 1970 (UTC)."""
        # A copy with another payload counts as known too: both layers count the lowest offset.
        if event.event_id in self._events:
            return EventMovements([], None)
        place = parse_chain_position(event.event_id)
        before = self._find_counted_event(place.chain)
        # An event that moves nothing is stored too: its void, or its receipt, may still come.
        stored = StoredEvent(
            offset=offset,
            fingerprint=event.fingerprint,
            at=at,
            happened_at=event.happened_at,
            # The lines of a void do not count: it names its receipt.
            moves=() if place.is_void else event.effects,
        )
        self._store(event.event_id, stored)
        after = self._find_counted_event(place.chain)
        # It is a copy of an old version, or a second void.
        if before == after:
            return EventMovements([], stored)
        brought = stored.moves if after == event.event_id else ()
        if before is None:
            return EventMovements(_movements(event, brought, "", ()), stored)
        replaced = self._events[before]
        reversals = _reverse_effects(replaced.moves, before in self._filed_ids)
        return EventMovements(_movements(event, brought, replaced.happened_at, reversals), stored)

    def forget_before(self, before: int) -> list[str]:
        """Forget events that arrived before an instant (ms since 1970, UTC); returns their ids."""
        # The events are in the order of arrival.
        old = takewhile(lambda event: event[1].at < before, self._events.items())
        found = [event_id for event_id, _ in old]
        for event_id in found:
            self._forget(event_id)
        return found

    def restore(self, stored: Iterable[tuple[str, StoredEvent]]) -> None:
        """Replace the state with these events, by identity, in the order of writing."""
        self._events, self._chains, self._last_ids = {}, defaultdict(set), {}
        self._filed_ids = set()
        for event_id, known in stored:
            self._store(event_id, known)

    def _store(self, event_id: str, stored: StoredEvent) -> None:
        self._events[event_id] = stored
        chain = parse_chain_position(event_id).chain
        self._chains[chain].add(event_id)
        last = self._last_ids.get(chain)
        if last is None or self._rank(event_id) > self._rank(last):
            self._last_ids[chain] = event_id

    def _forget(self, event_id: str) -> None:
        chain = parse_chain_position(event_id).chain
        names = self._chains[chain]
        names.discard(event_id)
        if not names:
            del self._chains[chain], self._last_ids[chain]
        elif self._last_ids[chain] == event_id:
            self._last_ids[chain] = max(names, key=self._rank)
        del self._events[event_id]
        self._filed_ids.discard(event_id)

    def _rank(self, event_id: str) -> tuple[object, ...]:
        stored = self._events[event_id]
        return rank(ChainEvent(event_id, stored.happened_at, stored.offset))

    def _find_counted_event(self, chain: str) -> str | None:
        """The event of a receipt that counts, by the events known so far."""
        last = self._last_ids.get(chain)
        return None if last is None or parse_chain_position(last).is_void else last


def _movements(
    event: StockEvent,
    brought: Sequence[LineEffect],
    closed_at: str,
    reversals: Sequence[LineEffect],
) -> list[StockMovement]:
    """The event's own movements, and its reversals, dated to the replaced version's close."""
    # A line that is reversed and moved again in one event needs two ids.
    mark = "-" if brought else ""
    entries = [(mark, move, closed_at) for move in reversals]
    entries += [("", move, event.happened_at) for move in brought]
    return [
        StockMovement(
            movement_id=f"{event.event_id}#{mark}{move.line}",
            store_id=event.store_id,
            item_id=move.item_id,
            delta_milli=move.delta_milli,
            counted_milli=move.counted_milli,
            kind=move.kind,
            happened_at=happened_at,
            receipt=event.event_id,
            index=index,
            of=len(entries),
            source=event.source,
        )
        for index, (mark, move, happened_at) in enumerate(entries, start=1)
    ]


def _reverse_effects(moves: Sequence[LineEffect], is_filed: bool) -> tuple[LineEffect, ...]:
    kind: MovementKind = "reversal" if is_filed else "void"
    # A count has no void: another document corrects it.
    return tuple(
        LineEffect(move.line, move.item_id, kind, -move.delta_milli)
        for move in moves
        if move.delta_milli is not None
    )
