"""The adapter's step: movements and ticks to calls and their outcomes."""

from collections.abc import Callable, Sequence

from inventory.movements.movement import decode_movement
from inventory.sync.calls import CODEC
from inventory.sync.engine import StockSyncEngine
from inventory.sync.modes import CallAnswer, CallAttempt
from runtime.outbound.records import TickTime
from runtime.outbound.step import OutboundCalls, OutboundStep
from runtime.processor.commit.record import Input, Output
from tally.alerts.tick import Tick

MOVEMENTS, TICKS, CALLS = "stock-movements", "ticks", "stock-calls"


class StockAdapter(OutboundStep[StockSyncEngine, CallAttempt, CallAnswer]):
    """The calls of the assigned partitions; `make_engine` makes the engine of a partition.

    `covers`: whether a store's movements are sent; `prefix` names a separate set of topics in
    tests.
    """

    state_topic = CALLS

    def __init__(
        self,
        calls: OutboundCalls[CallAttempt, CallAnswer],
        make_engine: Callable[[], StockSyncEngine],
        covers: Callable[[str], bool] = lambda _store_id: True,
        prefix: str = "",
    ) -> None:
        super().__init__(calls, CODEC)
        self.state_topic = prefix + CALLS
        self.topics = (prefix + MOVEMENTS, prefix + TICKS)
        self._build_engine, self._covers_store = make_engine, covers

    def _make_engine(self, _partition: int) -> StockSyncEngine:
        return self._build_engine()

    def _process_value(self, record: Input, value: bytes) -> Sequence[Output]:
        engine = self._engine(record.partition)
        if record.topic == self.topics[1]:
            tick = Tick.decode(value)
            return self._outputs(
                record.partition, engine.advance_time(TickTime(n=tick.n, at=tick.at))
            )
        movement = decode_movement(value)
        if not self._covers_store(movement.store_id):
            return ()
        return self._outputs(record.partition, engine.process_movement(movement))
