"""Which events have moved stock: each once, by the first copy of it that came.

    take(sale)          its movements; it is known from now on
    take(sale again)    nothing, whatever the copy says
    take(void of it)    the same movements with the other sign, as of when the sale was
    take(void first)    nothing; the sale, when it comes, moves nothing either

as a rebuild counts them (docs/adr/016-voids.md): of a receipt and its void neither.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from tally.identity import REVERSAL
from tally.stock.movement import MovementKind, StockMovement


class StockMove(Struct, frozen=True, array_like=True):
    """What a line does: its place on the receipt, counted from 1; amounts in thousandths."""

    line: int
    item_id: str
    kind: MovementKind
    delta_milli: int | None = None
    counted_milli: int | None = None


class StockEvent(NamedTuple):
    """A receipt, or a line of a document, and what it does if it is the first copy."""

    event_id: str
    store_id: str
    happened_at: str
    fingerprint: str
    source: str
    moves: tuple[StockMove, ...]


class SeenEvent(Struct, frozen=True, kw_only=True):
    """The first copy of an event, as it is kept; `at`: its arrival, milliseconds since 1970 (UTC).

    `moves` are what a void of it takes back.
    """

    offset: int
    fingerprint: str
    at: int
    happened_at: str
    moves: tuple[StockMove, ...] = ()


class TakenEvent(NamedTuple):
    """The movements of an event, and the record of it; None for one that is known."""

    movements: list[StockMovement]
    seen: SeenEvent | None


class SeenEvents:
    """The events of one partition of both topics, in the order in which they came."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenEvent] = {}

    def take(self, event: StockEvent, offset: int, at: int) -> TakenEvent:
        """What the event moves; `at`: its arrival, milliseconds since 1970 (UTC)."""
        # Another payload of it too: both layers count the first by offset, and so does this.
        if event.event_id in self._seen:
            return TakenEvent([], None)
        moved = self._moved(event)
        # Also of one that moves nothing: its void, or its receipt, may still come.
        seen = SeenEvent(
            offset=offset,
            fingerprint=event.fingerprint,
            at=at,
            happened_at=moved.happened_at,
            moves=moved.moves,
        )
        self._seen[event.event_id] = seen
        return TakenEvent(_movements(moved), seen)

    def outdated(self, before: int) -> list[str]:
        """Identities that came before the instant (ms since 1970, UTC); they are forgotten."""
        found = []
        # They lie in the order in which they came.
        for event_id, seen in self._seen.items():
            if seen.at >= before:
                break
            found.append(event_id)
        for event_id in found:
            del self._seen[event_id]
        return found

    def restore(self, seen: Iterable[tuple[str, SeenEvent]]) -> None:
        """Begin anew with these, by identity, in the order in which they were written."""
        self._seen = dict(seen)

    def _moved(self, event: StockEvent) -> StockEvent:
        """The event with what it moves, as of when."""
        if event.event_id.startswith(REVERSAL):
            taken = self._seen.get(event.event_id.removeprefix(REVERSAL))
            if taken is None:
                return event._replace(moves=())
            # What the void's own lines say does not count: it names its receipt.
            return event._replace(happened_at=taken.happened_at, moves=_taken_back(taken.moves))
        is_voided = REVERSAL + event.event_id in self._seen
        return event._replace(moves=()) if is_voided else event


def _taken_back(moves: Sequence[StockMove]) -> tuple[StockMove, ...]:
    # No count has a void: it is another document that corrects it.
    return tuple(
        StockMove(one.line, one.item_id, "void", -one.delta_milli)
        for one in moves
        if one.delta_milli is not None
    )


def _movements(event: StockEvent) -> list[StockMovement]:
    return [
        StockMovement(
            movement_id=f"{event.event_id}#{move.line}",
            store_id=event.store_id,
            item_id=move.item_id,
            delta_milli=move.delta_milli,
            counted_milli=move.counted_milli,
            kind=move.kind,
            happened_at=event.happened_at,
            receipt=event.event_id,
            index=index,
            of=len(event.moves),
            source=event.source,
        )
        for index, move in enumerate(event.moves, start=1)
    ]
