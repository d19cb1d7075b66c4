"""What is written to the topics of stock is what schemas/topics says."""

from typing import get_args

import msgspec
import pytest

from inventory.movements.deduplication import EventDeduplicator
from inventory.movements.movement import StockMovement, encode_movement
from inventory.movements.step import MOVEMENTS
from inventory.sync.calls import CallAnswer, CallMode, LaneLevel, StockCall, call_key, encode_call
from runtime.outbound.engine import TickTime
from schemas.loader import record_schema
from tally.time.instants import DAY_MILLIS
from tests.unit.inventory.moved import NOON, SALE, VOID, count, engine_of, later, movement
from tests.unit.schemas.test_records import as_record, wrong_in


@pytest.mark.parametrize(
    "one", [movement(), count(1, 0), movement(item_id="Milch | 1 l", kind="reversal")]
)
def test_a_movement_is_as_its_schema_says(one: StockMovement) -> None:
    record = as_record(MOVEMENTS, one.lane, encode_movement(one), {})

    assert wrong_in(MOVEMENTS, record) == []
    assert wrong_in(MOVEMENTS, {**record, "value": {**record["value"], "kind": "gone"}}) != []
    fields = record_schema(MOVEMENTS)["properties"]["value"]["required"]
    assert tuple(fields) == StockMovement.__struct_fields__


def test_what_was_seen_is_as_its_schema_says() -> None:
    book = EventDeduplicator()
    for event in (SALE, VOID):
        seen = book.process_event(event, 5, NOON).stored
        record = as_record("stock-seen", event.event_id, msgspec.json.encode(seen), {})
        assert wrong_in("stock-seen", record) == []
        named = record_schema("stock-seen")["properties"]["value"]["required"]
        assert {*record["value"]} == {*named}


@pytest.mark.parametrize("mode", get_args(CallMode))
def test_a_record_of_calls_is_as_its_schema_says(mode: CallMode) -> None:
    engine = engine_of(mode)
    kept = [*engine.process_movement(count(1, 9000)), *later(engine, 8 * DAY_MILLIS)]
    begun = engine.begin_attempts([])
    kept += [
        *begun.records,
        *engine.record_answer(begun.calls[0], CallAnswer(status=200, version="a")),
    ]

    assert {type(one) for one in kept} >= {StockCall, LaneLevel, TickTime}
    for one in kept:
        record = as_record("stock-calls", call_key(one), encode_call(one) or b"", {})
        assert wrong_in("stock-calls", record) == []
    [call, *_] = [one for one in kept if isinstance(one, StockCall)]
    named = record_schema("stock-calls")["properties"]["value"]["oneOf"][1]["properties"]
    assert {*named} == {"is", *call.__struct_fields__}
