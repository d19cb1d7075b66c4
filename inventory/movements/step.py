"""The step of stock movements: receipts and documents to movements, and seen events to the state.

A receipt of k lines becomes k records in one transaction, each in the partition of its article. So
they lie in several partitions, and a reader gets the movements of one article in order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from inventory.movements.deduplication import (
    EventDeduplicator,
    FiledEvents,
    StockEvent,
    StoredEvent,
)
from inventory.movements.movement import StockMovement, encode_movement, instant_millis
from inventory.movements.records import document_event, receipt_event, stock_formula
from runtime.processor.step import Input, Output, Step, log_unreadable, newest_values, parse_state
from runtime.registry.receipt_lines import RECEIPTS
from tally.config.settings import Settings
from tally.errors import BadInstant
from tally.events.identity import partition_number

MOVEMENTS, SEEN = "stock-movements", "stock-seen"
_HOUR = 3_600_000
_DECODER, _ENCODER = msgspec.json.Decoder(StoredEvent), msgspec.json.Encoder()
Reader = Callable[[bytes, str], StockEvent]
# Takes an event, its offset and its arrival (ms since 1970, UTC); returns the events of its receipt
# that were filed before. Raises TransactionAborted.
EarlierEventLookup = Callable[[StockEvent, int, int], FiledEvents]


class StockMovements(Step):
    """Moves stock once for each event; `prefix` names a separate set of topics in tests.

    `filed`: looks up receipts that are older than the memory of events; without it, a copy of such
    a receipt moves stock again, and its void moves nothing.
    """

    state_topic = SEEN

    def __init__(
        self, settings: Settings, prefix: str = "", filed: EarlierEventLookup = lambda *_: ()
    ) -> None:
        self._find_earlier = filed
        self._tolerance = settings.future_tolerance_seconds * 1_000
        documents = stock_formula().family.topic
        self.state_topic, self._movements = prefix + SEEN, prefix + MOVEMENTS
        # Documents first: within one poll, a count is processed before the sales that follow it.
        self._readers: dict[str, tuple[Reader, str]] = {
            prefix + documents: (document_event, documents),
            prefix + RECEIPTS: (receipt_event, RECEIPTS),
        }
        self.topics = tuple(self._readers)
        self._partitions = settings.partitions
        # A copy can be read from the topic for this long; a later one counts as another event.
        self._retention_millis = settings.canonical_retention_hours * _HOUR
        self._events: dict[int, EventDeduplicator] = defaultdict(EventDeduplicator)
        # The latest broker time of each partition, milliseconds since 1970 (UTC).
        self._now: dict[int, int] = defaultdict(int)

    def process(self, record: Input) -> Sequence[Output]:
        """The movements of a receipt or of a document line, and the record that it was seen."""
        if record.value is None:
            return ()
        read, source = self._readers[record.topic]
        try:
            event = read(record.value, source)
            happened_at = instant_millis(event.happened_at)
        except (msgspec.DecodeError, BadInstant) as error:
            # Both layers skip such a record and have a dead letter of it: no record stops a layer.
            log_unreadable(record, error)
            return ()
        # The time is that of the brokers, which the clock of a till cannot change.
        self._now[record.partition] = max(self._now[record.partition], record.timestamp_ms)
        events = self._events[record.partition]
        # A forgotten copy had happened before it arrived, by a clock that may be ahead.
        oldest = self._now[record.partition] - self._retention_millis + self._tolerance
        if source == RECEIPTS and happened_at < oldest:
            events.add_filed(self._find_earlier(event, record.offset, record.timestamp_ms))
        result = events.process_event(event, record.offset, record.timestamp_ms)
        if result.stored is None:
            return ()
        stored = _ENCODER.encode(result.stored)
        state_output = self._state_output(event.event_id, stored, record.partition)
        return [*(self._output(movement) for movement in result.movements), state_output]

    def before_commit(self) -> Sequence[Output]:
        """Tombstones of events that are forgotten because no copy of them can arrive any more."""
        return [
            self._state_output(event_id, None, partition)
            for partition, events in self._events.items()
            for event_id in events.forget_before(self._now[partition] - self._retention_millis)
        ]

    def restore(self, state: Iterable[Input]) -> None:
        """Rebuild the seen events from their records. Raises UnrecoverableError for others."""
        newest = newest_values(state, lambda record: parse_state(record, _DECODER.decode))
        self._events, self._now = defaultdict(EventDeduplicator), defaultdict(int)
        # Events are forgotten in the order in which they were stored.
        for partition, events in newest.items():
            known = ((event_id.decode(), event) for event_id, event in events.items())
            self._events[partition].restore(known)

    def _output(self, movement: StockMovement) -> Output:
        lane = movement.lane
        # Set here, because client libraries hash keys differently.
        partition = partition_number(lane, self._partitions)
        return Output(self._movements, lane.encode(), encode_movement(movement), partition)

    def _state_output(self, event_id: str, value: bytes | None, partition: int) -> Output:
        return Output(self.state_topic, event_id.encode(), value, partition)
