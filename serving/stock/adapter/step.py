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

from runtime.processor.record import Input, Output, parsed_state
from runtime.processor.step import Step
from tally.alerts.delivery.records import TickTime
from tally.alerts.tick import Tick
from tally.errors import BadInstant
from tally.stock.calls import CallChange, KeptCall, call_key, call_value, parsed_call
from tally.stock.desk import CallDesk
from tally.stock.modes import AskedCall, CallAnswer
from tally.stock.movement import movement_of

MOVEMENTS, TICKS, CALLS = "stock-movements", "ticks", "stock-calls"

log = structlog.get_logger()


class PlacedCall(NamedTuple):
    """A call, and the partition of its movement."""

    partition: int
    asked: AskedCall


class OutboundCalls(Protocol):
    """Starts calls and keeps their answers until they are taken."""

    def begin(self, asked: PlacedCall) -> None:
        """Start a call."""

    def under_way(self) -> list[PlacedCall]:
        """The calls whose answers are not taken yet."""

    def take_answers(self) -> list[tuple[PlacedCall, CallAnswer]]:
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
        make_desk: Callable[[], CallDesk],
        is_of: Callable[[str], bool] = lambda _store_id: True,
        prefix: str = "",
    ) -> None:
        self.state_topic = prefix + CALLS
        self.topics = (prefix + MOVEMENTS, prefix + TICKS)
        self._calls, self._make_desk, self._is_of = calls, make_desk, is_of
        self._desks: dict[int, CallDesk] = {}
        self._to_call: list[PlacedCall] = []

    def process(self, record: Input) -> Sequence[Output]:
        """The outputs of a movement or a tick: changed calls and levels."""
        if record.value is None:
            return ()
        desk = self._desk(record.partition)
        changes: Sequence[CallChange] = ()
        try:
            if record.topic == self.topics[1]:
                tick = Tick.read(record.value)
                changes = desk.pass_time(TickTime(n=tick.n, at=tick.at))
            else:
                movement = movement_of(record.value)
                if self._is_of(movement.store_id):
                    changes = desk.take(movement)
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
            if placed.partition in self._desks:
                changes = self._desks[placed.partition].answered(placed.asked, answer)
                outputs += self._outputs(placed.partition, changes)
        # After the answers, because a call that has just ended frees its lane for the next one.
        under_way = self._calls.under_way()
        for partition, desk in self._desks.items():
            mine = [call.asked for call in under_way if call.partition == partition]
            begun = desk.begin(mine)
            outputs += self._outputs(partition, begun.kept)
            self._to_call += [PlacedCall(partition, attempt) for attempt in begun.asked]
        return outputs

    def stored(self) -> None:
        """Start the calls whose attempts are stored now."""
        to_begin, self._to_call = self._to_call, []
        for placed in to_begin:
            self._calls.begin(placed)

    def restore(self, state: Iterable[Input]) -> None:
        """Rebuild the desks from their records; calls that had not started are due again.

        Raises Refused for a record that is not the adapter's own.
        """
        # Their transaction may have been aborted; if it was committed, they are due again.
        self._to_call = []
        newest: dict[int, dict[bytes, KeptCall]] = {}
        for record in state:
            lane, key = newest.setdefault(record.partition, {}), record.key or b""
            # The key moves to the end: ended calls are restored in the order in which they ended.
            lane.pop(key, None)
            if record.value is not None:
                lane[key] = parsed_state(record, parsed_call)
        self._desks = {}
        for partition, records in newest.items():
            self._desk(partition).restore(records.values())

    def close(self) -> None:
        """Abandon the calls in flight: they count as unanswered."""
        self._calls.close()

    def _desk(self, partition: int) -> CallDesk:
        if partition not in self._desks:
            self._desks[partition] = self._make_desk()
        return self._desks[partition]

    def _outputs(self, partition: int, changes: Iterable[CallChange]) -> list[Output]:
        return [
            Output(self.state_topic, call_key(change), call_value(change), partition)
            for change in changes
        ]
