"""What is kept of calls in the topic `stock-calls`: its records, and their keys.

    <movement_id>             a movement, how often it was called for, and what came of it
    level|<store>|<item>      what there was of an article a week ago; what is older is forgotten
    reconciled                the day (UTC) of the last reconciliation
    tick                      how far time had come

Instants are milliseconds since 1970 (UTC), by ticks; amounts are in thousandths.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from tally.alerts.delivery.records import DroppedRecord, TickTime
from tally.stock.movement import MovementKind, instant_millis, lane_of

CallMode: TypeAlias = Literal[
    "idempotency_key", "compare_and_set", "sole", "absolute", "at_least_once", "at_most_once"
]
# What is asked of the other system: to change by an amount, to tell a level, to set one.
CallStep: TypeAlias = Literal["adjust", "look", "set"]
CallOutcome: TypeAlias = Literal["intent", "called", "applied", "refused", "unknown", "overruled"]
CallKind: TypeAlias = MovementKind | Literal["reconciliation"]
OPEN: tuple[CallOutcome, ...] = ("intent", "called")


class StockCall(Struct, frozen=True, kw_only=True, tag_field="is", tag="call"):
    """One movement on its way to the other system.

    `brought`: what the movement brings, as the part Level takes it; None of a reconciliation, and
    of what a later count has already.
    `delta_milli`: by how much it changes what there is, None where it sets `level_milli`; that is
    what there is behind it, None while nobody has counted. `step`: what is asked next. `attempts`
    are calls of all steps, `failures` those that did not bring it further. `in_doubt`: one that
    changes something may have arrived. `version`, `quantity_milli`: as the other system told last.
    """

    movement_id: str
    store_id: str
    item_id: str
    kind: CallKind
    happened_at: str
    brought: int | None
    delta_milli: int | None
    level_milli: int | None
    order: int
    step: CallStep
    due_at: int
    outcome: CallOutcome = "intent"
    attempts: int = 0
    failures: int = 0
    refusals: int = 0
    begun_at: int | None = None
    ended_at: int | None = None
    in_doubt: bool = False
    version: str | None = None
    quantity_milli: int | None = None
    status: int | None = None
    cause: str = ""

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return self.movement_id

    @property
    def lane(self) -> str:
        """Of two calls of one lane the earlier comes to its end first."""
        return lane_of(self.store_id, self.item_id)

    @property
    def millis(self) -> int:
        """When it happened, milliseconds since 1970 (UTC)."""
        return instant_millis(self.happened_at)


class LaneLevel(Struct, frozen=True, kw_only=True, tag_field="is", tag="level"):
    """What there was of an article at an instant: what calls up to `order` moved before it.

    What came since says the record of each call: it need not be written again with every one.
    `level_milli`: None while nobody had counted; `counted_at`: the last count in it, 0 for none.
    """

    store_id: str
    item_id: str
    at: int
    level_milli: int | None
    counted_at: int
    order: int

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"level|{self.lane}"

    @property
    def lane(self) -> str:
        """The article's."""
        return lane_of(self.store_id, self.item_id)


class ReconciledDay(Struct, frozen=True, kw_only=True, tag_field="is", tag="reconciled"):
    """The day (UTC) on which all levels were set last."""

    day: str

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return "reconciled"


KeptCall: TypeAlias = StockCall | LaneLevel | ReconciledDay | TickTime
CallChange: TypeAlias = KeptCall | DroppedRecord
_DECODER = msgspec.json.Decoder(KeptCall)
_ENCODER = msgspec.json.Encoder()


def call_key(kept: CallChange) -> bytes:
    """The key of a record in the topic."""
    return kept.topic_key if isinstance(kept, DroppedRecord) else kept.key.encode()


def call_value(kept: CallChange) -> bytes | None:
    """The record's value, JSON whose field `is` names its kind; None deletes the key's record."""
    return None if isinstance(kept, DroppedRecord) else _ENCODER.encode(kept)


def parsed_call(value: bytes) -> KeptCall:
    """The record that a value of the topic says. Raises msgspec.DecodeError."""
    found: KeptCall = _DECODER.decode(value)
    return found
