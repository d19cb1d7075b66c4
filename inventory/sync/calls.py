"""The records of the topic `stock-calls` and their keys.

    <movement_id>             a movement, the number of its calls, and their outcome
    level|<store>|<item>      the level of an article a week ago; older movements are forgotten
    reconciled                the day (UTC) of the last reconciliation
    tick                      the time of the last tick

Instants are milliseconds since 1970 (UTC), by ticks; amounts are in thousandths.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from inventory.movements.movement import MovementKind, instant_millis, lane_key
from runtime.outbound.records import DroppedRecord, RecordCodec, TickTime

CallMode: TypeAlias = Literal["idempotency_key", "compare_and_set", "absolute"]
# The request to the other system: change a level by an amount, read a level, or set one.
CallStep: TypeAlias = Literal["adjust", "look", "set"]
CallOutcome: TypeAlias = Literal["intent", "called", "applied", "refused", "unknown", "overruled"]
CallKind: TypeAlias = MovementKind | Literal["reconciliation"]
OPEN_OUTCOMES: tuple[CallOutcome, ...] = ("intent", "called")


class StockCall(Struct, frozen=True, kw_only=True, tag_field="is", tag="call"):
    """One movement on its way to the other system.

    `brought`: the movement as the part Level takes it; None for a reconciliation, and for a
    movement that a later count already includes.
    `delta_milli`: the change of the level, None if the call sets `level_milli`, which is the level
    after the movement and None before the first count. `step`: the next request. `attempts`: the
    calls of all steps; `failures`: those without progress. `in_doubt`: a call that changes
    something may have arrived. `version`, `quantity_milli`: the last answer of the other system.
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
        """The lane of its article; of two calls in a lane, the earlier one ends first."""
        return lane_key(self.store_id, self.item_id)

    @property
    def lane_keys(self) -> tuple[str, ...]:
        """Its lane alone."""
        return (self.lane,)

    @property
    def millis(self) -> int:
        """When the movement happened, milliseconds since 1970 (UTC)."""
        return instant_millis(self.happened_at)


class LaneLevel(Struct, frozen=True, kw_only=True, tag_field="is", tag="level"):
    """The level of an article at an instant, by the earlier movements of calls up to `order`.

    Later movements are in the records of their calls, so this record need not be rewritten with
    each of them. `level_milli`: None before the first count; `counted_at`: the last count that it
    includes, 0 for none.
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
        """The lane of its article."""
        return lane_key(self.store_id, self.item_id)


class ReconciledDay(Struct, frozen=True, kw_only=True, tag_field="is", tag="reconciled"):
    """The day (UTC) on which all levels were last set."""

    day: str

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return "reconciled"


StoredCall: TypeAlias = StockCall | LaneLevel | ReconciledDay | TickTime
CallChange: TypeAlias = StoredCall | DroppedRecord
CODEC: RecordCodec[StoredCall] = RecordCodec(StoredCall, lambda record: record.key)
call_key, encode_call, decode_call = CODEC.key, CODEC.encode, CODEC.decode
