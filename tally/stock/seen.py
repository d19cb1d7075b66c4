"""Which events have moved stock: each once, by the first copy of it that came.

    take(sale)          its movements; it is known from now on
    take(sale again)    nothing, whatever the copy says
    take(void of it)    the same movements with the other sign, as of when the sale was
    take(void first)    nothing; the sale, when it comes, moves nothing either
    take(a revision)    the movements of the sale with the other sign, and its own
    learn(filed sale)   what came longer ago than events are remembered, before its copy or its void

as a rebuild counts them (tally/receipt_chain.py): of a receipt its last version, if no void is
behind it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from tally.receipt_chain import ChainEvent, rank, read_place
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

    `moves` are what a void or a later version of it takes back.
    """

    offset: int
    fingerprint: str
    at: int
    happened_at: str
    moves: tuple[StockMove, ...] = ()


# By identity what was seen of it and forgotten since.
FiledEvents = Iterable[tuple[str, SeenEvent]]


class TakenEvent(NamedTuple):
    """The movements of an event, and the record of it; None for one that is known."""

    movements: list[StockMovement]
    seen: SeenEvent | None


class SeenEvents:
    """The events of one partition of both topics, in the order in which they came."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenEvent] = {}
        # Events by receipt, and the one that stands behind all others, which tells what counts.
        self._chains: dict[str, set[str]] = defaultdict(set)
        self._last: dict[str, str] = {}
        # Those that were looked up: what takes them back comes later than they were remembered.
        self._filed: set[str] = set()

    def learn(self, filed: FiledEvents) -> None:
        """Remember events, by identity, that had been seen and were forgotten since."""
        for event_id, seen in filed:
            if event_id not in self._seen:
                self._keep(event_id, seen)
                self._filed.add(event_id)

    def take(self, event: StockEvent, offset: int, at: int) -> TakenEvent:
        """What the event moves; `at`: its arrival, milliseconds since 1970 (UTC)."""
        # Another payload of it too: both layers count the first by offset, and so does this.
        if event.event_id in self._seen:
            return TakenEvent([], None)
        place = read_place(event.event_id)
        before = self._standing(place.chain)
        # Also of one that moves nothing: its void, or its receipt, may still come.
        seen = SeenEvent(
            offset=offset,
            fingerprint=event.fingerprint,
            at=at,
            happened_at=event.happened_at,
            # What a void's own lines say does not count: it names its receipt.
            moves=() if place.is_void else event.moves,
        )
        self._keep(event.event_id, seen)
        after = self._standing(place.chain)
        # A copy of an old version, or a second void.
        if before == after:
            return TakenEvent([], seen)
        brought = seen.moves if after == event.event_id else ()
        return TakenEvent(_movements(event, brought, self._replaced(before)), seen)

    def _replaced(self, event_id: str | None) -> tuple[str, Sequence[StockMove]]:
        """What takes an event back, and as of when."""
        if event_id is None:
            return "", ()
        seen = self._seen[event_id]
        return seen.happened_at, _taken_back(seen.moves, event_id in self._filed)

    def outdated(self, before: int) -> list[str]:
        """Identities that came before the instant (ms since 1970, UTC); they are forgotten."""
        found = []
        # They lie in the order in which they came.
        for event_id, seen in self._seen.items():
            if seen.at >= before:
                break
            found.append(event_id)
        for event_id in found:
            self._forget(event_id)
        return found

    def restore(self, seen: Iterable[tuple[str, SeenEvent]]) -> None:
        """Begin anew with these, by identity, in the order in which they were written."""
        self._seen, self._chains, self._last = {}, defaultdict(set), {}
        self._filed = set()
        for event_id, known in seen:
            self._keep(event_id, known)

    def _keep(self, event_id: str, seen: SeenEvent) -> None:
        self._seen[event_id] = seen
        chain = read_place(event_id).chain
        self._chains[chain].add(event_id)
        last = self._last.get(chain)
        if last is None or self._rank(event_id) > self._rank(last):
            self._last[chain] = event_id

    def _forget(self, event_id: str) -> None:
        chain = read_place(event_id).chain
        names = self._chains[chain]
        names.discard(event_id)
        if not names:
            del self._chains[chain], self._last[chain]
        elif self._last[chain] == event_id:
            self._last[chain] = max(names, key=self._rank)
        del self._seen[event_id]
        self._filed.discard(event_id)

    def _rank(self, event_id: str) -> tuple[object, ...]:
        seen = self._seen[event_id]
        return rank(ChainEvent(event_id, seen.happened_at, seen.offset))

    def _standing(self, chain: str) -> str | None:
        """The event of a receipt that counts, as far as it is known."""
        last = self._last.get(chain)
        return None if last is None or read_place(last).is_void else last


def _movements(
    event: StockEvent,
    brought: Sequence[StockMove],
    replaced: tuple[str, Sequence[StockMove]],
) -> list[StockMovement]:
    """The movements of an event: those of the version that it replaces with the other sign, as of
    when that was closed, and its own."""
    closed_at, taken = replaced
    # A line that goes and comes in one event has two names.
    mark = "-" if brought else ""
    told = [(mark, move, closed_at) for move in taken]
    told += [("", move, event.happened_at) for move in brought]
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
            of=len(told),
            source=event.source,
        )
        for index, (mark, move, happened_at) in enumerate(told, start=1)
    ]


def _taken_back(moves: Sequence[StockMove], is_filed: bool) -> tuple[StockMove, ...]:
    kind: MovementKind = "reversal" if is_filed else "void"
    # No count has a void: it is another document that corrects it.
    return tuple(
        StockMove(move.line, move.item_id, kind, -move.delta_milli)
        for move in moves
        if move.delta_milli is not None
    )
