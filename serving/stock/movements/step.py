"""The step of stock movements: receipts and documents to movements, and what was seen to the state.

A receipt of k lines becomes k records in one transaction, each in the partition of its article: so
they lie in several partitions, and are read by who wants one article in order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec
import structlog

from runtime.processor.record import Input, Output, parsed_state
from runtime.processor.step import Step
from runtime.receipt_lines import RECEIPTS
from serving.stock.movements.records import document_event, receipt_event, stock_formula
from tally.errors import BadInstant
from tally.partitions import partition_of
from tally.settings import Settings
from tally.stock.movement import StockMovement, instant_millis, movement_value
from tally.stock.seen import FiledEvents, SeenEvent, SeenEvents, StockEvent

MOVEMENTS, SEEN = "stock-movements", "stock-seen"
_HOUR = 3_600_000
_DECODER, _ENCODER = msgspec.json.Decoder(SeenEvent), msgspec.json.Encoder()
Reader = Callable[[bytes, str], StockEvent]
# Of an event, its offset and its arrival (ms since 1970, UTC) what was filed of its receipt before.
# Raises Aborted.
FiledLookup = Callable[[StockEvent, int, int], FiledEvents]

log = structlog.get_logger()


def _nothing_filed(_event: StockEvent, _offset: int, _at: int) -> FiledEvents:
    """Of no receipt anything is filed."""
    return ()


class StockMovements(Step):
    """Each event moves stock once; `prefix`: a test's topics are a set of their own.

    `filed`: looks up receipts that came longer ago than they are remembered; without it a copy of
    such a one moves again, and its void nothing.
    """

    state_topic = SEEN

    def __init__(
        self, settings: Settings, prefix: str = "", filed: FiledLookup = _nothing_filed
    ) -> None:
        self._filed = filed
        self._tolerance = settings.future_tolerance_seconds * 1_000
        documents = stock_formula().family.topic
        self.state_topic, self._movements = prefix + SEEN, prefix + MOVEMENTS
        # Documents first: of what one poll brings a count lies before what is sold after it.
        self._readers: dict[str, tuple[Reader, str]] = {
            prefix + documents: (document_event, documents),
            prefix + RECEIPTS: (receipt_event, RECEIPTS),
        }
        self.topics = tuple(self._readers)
        self._partitions = settings.partitions
        # So long a copy can come out of the topic; what comes after that is another event to it.
        self._kept = settings.canonical_retention_hours * _HOUR
        self._events: dict[int, SeenEvents] = {}
        # By partition how far the brokers' time has come, milliseconds since 1970 (UTC).
        self._now: dict[int, int] = defaultdict(int)

    def process(self, record: Input) -> Sequence[Output]:
        """The movements of a receipt or of a line of a document, and the record of it."""
        if record.value is None:
            return ()
        read, source = self._readers[record.topic]
        try:
            event = read(record.value, source)
            happened_at = instant_millis(event.happened_at)
        except (msgspec.DecodeError, BadInstant) as error:
            # Both layers pass over it, and have a dead letter of it: no record stops a layer.
            log.error(
                "record not understood and left out",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                reason=str(error)[:200],
            )
            return ()
        # By the brokers' clock, which a till's cannot set.
        self._now[record.partition] = max(self._now[record.partition], record.timestamp_ms)
        seen = self._seen_in(record.partition)
        # Whatever came of it before had happened before it came, by a clock that may be ahead.
        oldest = self._now[record.partition] - self._kept + self._tolerance
        if source == RECEIPTS and happened_at < oldest:
            seen.learn(self._filed(event, record.offset, record.timestamp_ms))
        taken = seen.take(event, record.offset, record.timestamp_ms)
        if taken.seen is None:
            return ()
        kept = self._kept_output(event.event_id, _ENCODER.encode(taken.seen), record.partition)
        return [*(self._output(one) for one in taken.movements), kept]

    def tick(self) -> Sequence[Output]:
        """What is forgotten of events that no copy can come of any more."""
        return [
            self._kept_output(event_id, None, partition)
            for partition, seen in self._events.items()
            for event_id in seen.outdated(self._now[partition] - self._kept)
        ]

    def restore(self, state: Iterable[Input]) -> None:
        """What was seen, as its records say. Raises Refused for a record that is none of ours."""
        newest: dict[int, dict[str, SeenEvent]] = defaultdict(dict)
        for record in state:
            lane, event_id = newest[record.partition], (record.key or b"").decode()
            # Later in its place: they are forgotten in the order in which they were written.
            lane.pop(event_id, None)
            if record.value is not None:
                lane[event_id] = parsed_state(record, _DECODER.decode)
        self._events, self._now = {}, defaultdict(int)
        for partition, events in newest.items():
            self._seen_in(partition).restore(events.items())

    def _seen_in(self, partition: int) -> SeenEvents:
        return self._events.setdefault(partition, SeenEvents())

    def _output(self, movement: StockMovement) -> Output:
        lane = movement.lane
        # Set here, because client libraries hash keys differently.
        partition = partition_of(lane, self._partitions)
        return Output(self._movements, lane.encode(), movement_value(movement), partition)

    def _kept_output(self, event_id: str, value: bytes | None, partition: int) -> Output:
        return Output(self.state_topic, event_id.encode(), value, partition)
