"""The adapter's step: movements and ticks to calls and their outcomes.

    process(movement)  what there is now, and the call that follows, into the state
    tick()             outcomes of calls, and the attempts whose turn it is, into the state
    stored()           now that they are stored: the calls

A call is never made before its attempt is stored, and never within a transaction. Whoever restores
the state finds each attempt, with or without its outcome, and goes on as if no answer had come.
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
    """A call, and the partition whose it is."""

    partition: int
    asked: AskedCall


class OutboundCalls(Protocol):
    """Begins calls, and keeps what came of them until it is asked for."""

    def begin(self, asked: PlacedCall) -> None:
        """Call."""

    def under_way(self) -> list[PlacedCall]:
        """Calls whose answers were not taken yet."""

    def take_answers(self) -> list[tuple[PlacedCall, CallAnswer]]:
        """What came of those that have ended, each once."""

    def close(self) -> None:
        """Give up what is under way."""


class StockAdapter(Step):
    """The calls of the partitions that are ours; `make_desk` makes that of a partition.

    `is_of`: whether a store's movements are told; `prefix`: a test's topics are a set of their own.
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
        """The call that follows from a movement, or what a tick brings about."""
        if record.value is None:
            return ()
        desk = self._desk(record.partition)
        kept: Sequence[CallChange] = ()
        try:
            if record.topic == self.topics[1]:
                tick = Tick.read(record.value)
                kept = desk.pass_time(TickTime(n=tick.n, at=tick.at))
            else:
                movement = movement_of(record.value)
                if self._is_of(movement.store_id):
                    kept = desk.take(movement)
        except (msgspec.DecodeError, BadInstant) as error:
            # Written by somebody else. To end here would keep all others from being told.
            log.error(
                "record not understood and left out",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                reason=str(error)[:200],
            )
        return self._outputs(record.partition, kept)

    def tick(self) -> Sequence[Output]:
        """What came of the calls that have ended, and the attempts that are to begin now."""
        outputs: list[Output] = []
        for placed, answer in self._calls.take_answers():
            # Of a partition that was given away, its next owner asks again.
            if placed.partition in self._desks:
                kept = self._desks[placed.partition].answered(placed.asked, answer)
                outputs += self._outputs(placed.partition, kept)
        # Behind the answers: what has just ended makes room for the next of its lane.
        under_way = self._calls.under_way()
        for partition, desk in self._desks.items():
            mine = [one.asked for one in under_way if one.partition == partition]
            begun = desk.begin(mine)
            outputs += self._outputs(partition, begun.kept)
            self._to_call += [PlacedCall(partition, one) for one in begun.asked]
        return outputs

    def stored(self) -> None:
        """Begin the calls whose attempts are stored now."""
        placed, self._to_call = self._to_call, []
        for one in placed:
            self._calls.begin(one)

    def restore(self, state: Iterable[Input]) -> None:
        """The desks as their records say; calls that were to begin are found there as due again.

        Raises Refused for a record that is none of ours.
        """
        # They were of a transaction that may not count; if it does, they are due again.
        self._to_call = []
        newest: dict[int, dict[bytes, KeptCall]] = {}
        for record in state:
            lane, key = newest.setdefault(record.partition, {}), record.key or b""
            # Later in its place: ended calls lie in the order in which they ended.
            lane.pop(key, None)
            if record.value is not None:
                lane[key] = parsed_state(record, parsed_call)
        self._desks = {}
        for partition, records in newest.items():
            self._desk(partition).restore(records.values())

    def close(self) -> None:
        """Give up the calls under way: they count as unanswered."""
        self._calls.close()

    def _desk(self, partition: int) -> CallDesk:
        if partition not in self._desks:
            self._desks[partition] = self._make_desk()
        return self._desks[partition]

    def _outputs(self, partition: int, kept: Iterable[CallChange]) -> list[Output]:
        return [Output(self.state_topic, call_key(one), call_value(one), partition) for one in kept]
