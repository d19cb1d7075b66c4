"""A movement of stock: what one line of a receipt or of a document did to one article of a store.

All movements of an event are one group, told in one transaction: `index` is the place in it, 1 to
`of`. Groups lie in several partitions, so who reads them has a group when he has `of` of it.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from tally.algebra.level import Level
from tally.instants import parse_instant

MovementKind: TypeAlias = Literal[
    "sale", "return", "void", "delivery", "count", "transfer_in", "transfer_out", "reversal"
]


class StockMovement(Struct, frozen=True, kw_only=True):
    """One movement; amounts in thousandths.

    `delta_milli` is what came or, below 0, went; None for a count, of which `counted_milli` is what
    was there. `receipt`: identity of the event, `source`: the topic that it came from. By
    `happened_at` movements of an article follow each other, whichever came first.
    """

    movement_id: str
    store_id: str
    item_id: str
    delta_milli: int | None
    counted_milli: int | None
    kind: MovementKind
    happened_at: str
    receipt: str
    index: int
    of: int
    source: str

    @property
    def lane(self) -> str:
        """Key of its record: what has one keeps its order."""
        return lane_of(self.store_id, self.item_id)

    @property
    def millis(self) -> int:
        """When it happened, milliseconds since 1970 (UTC). Raises BadInstant."""
        return instant_millis(self.happened_at)


_DECODER = msgspec.json.Decoder(StockMovement)
_ENCODER = msgspec.json.Encoder()


def lane_of(store_id: str, item_id: str) -> str:
    """The article of a store as a key.

    >>> lane_of("367", "Milk|1l")
    '367|Milk|1l'
    """
    # No store has a bar in its id, so that no two lanes share a key.
    return f"{store_id}|{item_id}"


def instant_millis(text: str) -> int:
    """The instant in milliseconds since 1970 (UTC). Raises BadInstant."""
    return round(parse_instant(text, "happened_at").timestamp() * 1000)


def movement_value(movement: StockMovement) -> bytes:
    """The movement as a record's value (schemas/topics/stock-movements.schema.json)."""
    return _ENCODER.encode(movement)


def movement_of(value: bytes) -> StockMovement:
    """The movement of a record's value. Raises msgspec.DecodeError."""
    return _DECODER.decode(value)


def brought_by(movement: StockMovement) -> int:
    """What the movement brings, as the part Level takes it."""
    if movement.counted_milli is not None:
        return Level.count(movement.counted_milli)
    return Level.moved(movement.delta_milli or 0)
