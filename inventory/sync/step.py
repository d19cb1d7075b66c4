"""The adapter's step: movements and ticks to calls and their outcomes.

    process(movement)  the new level, and the call that follows, into the state
    tick()             outcomes of calls, and the attempts that are due, into the state
    stored()           now that they are stored: the calls

A call is never made before its attempt is stored, and never within a transaction. A process that
restores the state finds each attempt, with or without its outcome; an attempt without one is
treated as unanswered.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec
import structlog

from inventory.movements.movement import decode_movement
from inventory.sync.calls import CallChange, StoredCall, call_key, decode_call, encode_call
from inventory.sync.engine import StockSyncEngine
from inventory.sync.modes import CallAnswer, CallAttempt
from runtime.outbound.records import TickTime
from runtime.processor.commit.record import Input, Output, parse_state
from runtime.processor.step import Step
from tally.alerts.tick import Tick
from tally.errors import BadInstant

MOVEMENTS, TICKS, CALLS = "stock-movements", "ticks", "stock-calls"

log = structlog.get_logger()


class PartitionCall(NamedTuple):
    """A call, and the partition of its movement."""

    partition: int
    attempt: CallAttempt


class OutboundCalls(Protocol):
    """Starts calls and keeps their answers until they are taken."""

    def begin(self, asked: PartitionCall) -> None:
        """Start a call."""

    def pending_requests(self) -> list[PartitionCall]:
        """The calls whose answers are not taken yet."""

    def take_answers(self) -> list[tuple[PartitionCall, CallAnswer]]:
        """The answers of the calls that have ended; each is returned once."""

    def close(self) -> None:
        """Abandon the calls in flight."""


class StockAdapter(Step):
    """The calls of the assigned partitions; `make_desk` makes the desk of a partition.

    `is_of`: whether a store's movements are sent; `prefix` names a separate set of topics in tests.
    """

    state_topic = CALLS

    def __init__(
        self,
        calls: OutboundCalls,
        make_desk: Callable[[], StockSyncEngine],
        is_of: Callable[[str], bool] = lambda _store_id: True,
        prefix: str = "",
    ) -> None:
        self.state_topic = prefix + CALLS
        self.topics = (prefix + MOVEMENTS, prefix + TICKS)
        self._calls, self._make_engine, self._covers_store = calls, make_desk, is_of
        self._engines: dict[int, StockSyncEngine] = {}
        self._pending_calls: list[PartitionCall] = []

    def process(self, record: Input) -> Sequence[Output]:
        """The outputs of a movement or a tick: changed calls and levels."""
        if record.value is None:
            return ()
        desk = self._engine(record.partition)
        changes: Sequence[CallChange] = ()
        try:
            if record.topic == self.topics[1]:
                tick = Tick.decode(record.value)
                changes = desk.advance_time(TickTime(n=tick.n, at=tick.at))
            else:
                movement = decode_movement(record.value)
                if self._covers_store(movement.store_id):
                    changes = desk.process_movement(movement)
        except (msgspec.DecodeError, BadInstant) as error:
            # Another program wrote this record. Stopping here would block all other movements.
            log.error(
                "record not understood and left out",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                reason=str(error)[:200],
            )
        return self._outputs(record.partition, changes)

    def tick(self) -> Sequence[Output]:
        """The outputs of the calls that have ended, and of the attempts that are due now."""
        outputs: list[Output] = []
        for placed, answer in self._calls.take_answers():
            # If the partition was revoked, its next owner makes the call again.
            if placed.partition in self._engines:
                changes = self._engines[placed.partition].record_answer(placed.attempt, answer)
                outputs += self._outputs(placed.partition, changes)
        # After the answers, because a call that has just ended frees its lane for the next one.
        under_way = self._calls.pending_requests()
        for partition, desk in self._engines.items():
            mine = [call.attempt for call in under_way if call.partition == partition]
            begun = desk.begin_attempts(mine)
            outputs += self._outputs(partition, begun.records)
            self._pending_calls += [PartitionCall(partition, attempt) for attempt in begun.attempts]
        return outputs

    def on_commit(self) -> None:
        """Start the calls whose attempts are stored now."""
        to_begin, self._pending_calls = self._pending_calls, []
        for placed in to_begin:
            self._calls.begin(placed)

    def restore(self, state: Iterable[Input]) -> None:
        """Rebuild the desks from their records; calls that had not started are due again.

        Raises Refused for a record that is not the adapter's own.
        """
        # Their transaction may have been aborted; if it was committed, they are due again.
        self._pending_calls = []
        newest: dict[int, dict[bytes, StoredCall]] = {}
        for record in state:
            lane, key = newest.setdefault(record.partition, {}), record.key or b""
            # The key moves to the end: ended calls are restored in the order in which they ended.
            lane.pop(key, None)
            if record.value is not None:
                lane[key] = parse_state(record, decode_call)
        self._engines = {}
        for partition, records in newest.items():
            self._engine(partition).restore(records.values())

    def close(self) -> None:
        """Abandon the calls in flight: they count as unanswered."""
        self._calls.close()

    def _engine(self, partition: int) -> StockSyncEngine:
        if partition not in self._engines:
            self._engines[partition] = self._make_engine()
        return self._engines[partition]

    def _outputs(self, partition: int, changes: Iterable[CallChange]) -> list[Output]:
        return [
            Output(self.state_topic, call_key(change), encode_call(change), partition)
            for change in changes
        ]
