"""Events, movements and engines for the tests of stock."""

from typing import Any

from msgspec import structs

from inventory.movements.deduplication import LineEffect, StockEvent
from inventory.movements.movement import StockMovement
from inventory.sync.calls import CallMode, CallRules, StockCall
from inventory.sync.engine import StockSyncEngine
from runtime.outbound.engine import TickTime

# A Thursday of now, 13:00 in Rome.
NOON = 1_795_694_400_000
AT = "2026-11-26T10:00:00.000Z"
SALE = StockEvent(
    "pos:367:1:0:7",
    "367",
    AT,
    "f",
    "receipts",
    (LineEffect(1, "milk", "sale", -2000), LineEffect(3, "bread", "return", 1000)),
)
VOID = StockEvent("void:pos:367:1:0:7", "367", "2026-11-26T11:00:00.000Z", "v", "receipts", ())


def movement(number: int = 1, **changed: Any) -> StockMovement:
    """A sale of one litre of milk; `changed` fields by name."""
    whole = StockMovement(
        movement_id=f"pos:367:1:0:{number}#1",
        store_id="367",
        item_id="milk",
        delta_milli=-1000,
        counted_milli=None,
        kind="sale",
        happened_at=AT,
        receipt=f"pos:367:1:0:{number}",
        index=1,
        of=1,
        source="receipts",
    )
    return structs.replace(whole, **changed)


def count(number: int, milli: int, at: str = AT) -> StockMovement:
    """A count of milk."""
    told = {"delta_milli": None, "counted_milli": milli, "kind": "count", "happened_at": at}
    return movement(number, **told)


def engine_of(mode: CallMode, **limits: int) -> StockSyncEngine:
    """An engine of a mode at noon."""
    engine = StockSyncEngine(CallRules(mode, **limits))
    engine.advance_time(TickTime(n=1, at=NOON))
    return engine


def later(engine: StockSyncEngine, millis: int) -> list[Any]:
    """What a tick so much later brings about."""
    time = engine.memory.time
    return [*engine.advance_time(TickTime(n=time.n + 1, at=time.at + millis))]


def calls(kept: list[Any]) -> list[StockCall]:
    """The calls among records."""
    return [one for one in kept if isinstance(one, StockCall)]
