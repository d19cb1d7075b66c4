"""A movement of stock: the effect of one line of a receipt or document on an article of a store.

All movements of an event form a group, written in one transaction: `index` is the place in it, 1 to
`of`. A group lies in several partitions, so a reader has the whole group once it has `of` of them.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from tally.algebra.level import Level
from tally.time.instants import parse_instant, to_millis

MovementKind: TypeAlias = Literal[
    "sale", "return", "void", "delivery", "count", "transfer_in", "transfer_out", "reversal"
]


class StockMovement(Struct, frozen=True, kw_only=True):
    """One movement; amounts in thousandths.

    `delta_milli`: the change of the level, below 0 for goods that left, None for a count;
    `counted_milli`: the counted level, None otherwise. `receipt`: identity of the event; `source`:
    the topic that it came from. An article's movements are ordered by `happened_at`, not arrival.
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
        """The key of its record: records of one lane keep their order."""
        return lane_key(self.store_id, self.item_id)

    @property
    def millis(self) -> int:
        """When the movement happened, milliseconds since 1970 (UTC). Raises BadInstant."""
        return instant_millis(self.happened_at)


_DECODER = msgspec.json.Decoder(StockMovement)
_ENCODER = msgspec.json.Encoder()


def lane_key(store_id: str, item_id: str) -> str:
    """The article of a store as a key.

    >>> lane_key("367", "Milk|1l")
    '367|Milk|1l'
    """
    # A store id has no bar, so two lanes cannot have the same key.
    return f"{store_id}|{item_id}"


def instant_millis(text: str) -> int:
    """The instant in milliseconds since 1970 (UTC). Raises BadInstant."""
    return to_millis(parse_instant(text, "happened_at"))


def encode_movement(movement: StockMovement) -> bytes:
    """The movement as a record's value (schemas/topics/stock-movements.schema.json)."""
    return _ENCODER.encode(movement)


def decode_movement(value: bytes) -> StockMovement:
    """The movement of a record's value. Raises msgspec.DecodeError."""
    return _DECODER.decode(value)


def level_effect(movement: StockMovement) -> int:
    """The effect of the movement, as the part Level takes it."""
    if movement.counted_milli is not None:
        return Level.encode_count(movement.counted_milli)
    return Level.encode_movement(movement.delta_milli or 0)
