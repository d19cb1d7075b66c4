"""The consumer's side: records into the alignment buffers.

Also what a change of the group means for them.

The brokers divide the partitions among the members of a group, and number each division: its
generation. Positions that come with a transaction they check by member and generation (KIP-447),
never by who has the partition: a member that was thrown out and has joined again passes with its
new number, though another one has meanwhile stored what it had read before. A broker was seen to
take such a transaction, and the records were there twice. Hence

- the group's metadata is taken right after the poll that brought records, and read again when they
  are delivered; unequal, or without a generation (-1), and nothing is stored (`metadata_now`);
- records of two generations never lie in the buffers together (`_remember_generation`);
- partitions that are given, taken or lost drop all that was buffered, and all that was taken of it,
  before the callback returns; both go on at the committed positions;
- these are read at each assignment, by a consumer of committed records, which waits for the end of
  a predecessor's transaction (processor/bookmarks.py); after them the step's state is
  (processor/state.py).

The life of the buffers:

    subscribe()    nothing is ours
    _assign()      dropped, positions and state read,      by poll(), at the first and any later one
                   lanes empty
    poll()         records and ends of partitions come; full lanes are paused, low ones resumed
    rewind()       as an assignment of what is ours        after Aborted, after a new producer
    _lose()        dropped, nothing is ours                by poll(); an assignment follows, or, if
                   the client library hangs, none, and after 75 s the process ends
    close()        out of the group, then closed           at the end; what is given now is ignored
"""

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import KafkaError, Message, TopicPartition

from runtime.bookmarks import way_out
from runtime.processor.alignment import Alignment, AlignmentLimits
from runtime.processor.bookmarks import Bookmarks
from runtime.processor.record import EventTime, Input
from tally.errors import Aborted, DataLoss, TallyError

_METADATA_PREFIX = b"CGMDv2:"
_NO_GENERATION = -1
# Longer than any rebalance takes: it waits for `max.poll.interval.ms` at most, a minute, for a
# member that has gone.
MOST_SECONDS_WITHOUT = 75.0
_MOST_SECONDS_LEAVING = 5.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Reading:
    """What is read, and how it is put in order."""

    topics: tuple[str, ...]
    event_time: EventTime
    limits: AlignmentLimits
    most_records: int = 500


class Intake:
    """Buffers of all topics.

    `forget` is called whenever what was taken from them must not be delivered any more; `restore`,
    with all that is assigned, once it is known where to read on and before anything is read.
    """

    def __init__(self, consumer: Any, reading: Reading, bookmarks: Bookmarks) -> None:
        self._consumer = consumer
        self._reading = reading
        self.bookmarks = bookmarks
        self.forget: Callable[[], None] = lambda: None
        self.restore: Callable[[Sequence[TopicPartition]], None] = lambda _assigned: None
        self._metadata: bytes | None = None
        self.assigned = False
        self._is_leaving = False
        # Since when the group has said nothing of what is ours; a monotonic time.
        self._without_since: float | None = None
        self.alignments = {topic: Alignment(reading.limits) for topic in reading.topics}

    @property
    def most_records(self) -> int:
        """How many records one poll brings at most."""
        return self._reading.most_records

    def subscribe(self) -> None:
        """Join the group. The producer must be ready before: positions are read on assignment."""
        self._without_since = time.monotonic()
        self._consumer.subscribe(
            list(self._reading.topics),
            on_assign=self._assign,
            on_revoke=self._lose,
            on_lost=self._lose,
        )

    def poll(self, wait_seconds: float) -> int:
        """Buffer what has arrived; the number of records.

        Raises DataLoss, Aborted or TallyError.
        """
        messages = self._consumer.consume(self._reading.most_records, wait_seconds)
        received = sum([self._take(message) for message in messages])
        if received:
            self._remember_generation()
        self._pause_and_resume()
        if (
            self._without_since is not None
            and time.monotonic() - self._without_since > MOST_SECONDS_WITHOUT
        ):
            self._give_up_unless_kafka_is_away()
        return received

    def metadata_now(self) -> Any:
        """The group metadata of the poll that the buffered records came from, read again and equal.

        Raises Aborted otherwise.
        """
        current = self._consumer.consumer_group_metadata()
        if current != self._metadata or generation_of(current) == _NO_GENERATION:
            raise Aborted("the group has changed since the records were polled")
        return current

    @property
    def is_behind(self) -> bool:
        """Whether there is, or may be, something to do.

        Something is buffered, a partition has not been read to its end, or nobody knows yet which
        ones are ours.
        """
        return self._without_since is not None or any(
            alignment.is_behind() for alignment in self.alignments.values()
        )

    def rewind(self) -> None:
        """Forget everything read and go back to what the brokers say is committed."""
        self._begin(self._consumer.assignment())

    def close(self) -> None:
        """Leave the group, and only then close the consumer."""
        # Closed at once, the client library hands out in the middle of it what the group was just
        # giving: to read positions then fails with what no `except` takes, holds up the process
        # for half a minute, or for ever (seen; librdkafka's issue 4884).
        self._is_leaving = True
        self._consumer.unsubscribe()
        until = time.monotonic() + _MOST_SECONDS_LEAVING
        self._consumer.poll(0.1)
        while self._consumer.assignment() and time.monotonic() < until:
            self._consumer.poll(0.1)
        self._consumer.close()

    def _assign(self, _consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        if self._is_leaving:
            return
        self._begin(partitions)
        self._without_since = None

    def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        # Before the positions are read: whatever is still held was read by an earlier division.
        self._drop()
        starts = self.bookmarks.starts(partitions)
        # After the positions: whatever transaction they count as done has its state in the log by
        # now. Read before, it could lack what no record will come again for.
        self.restore(starts)
        # A pause outlives an assignment, and the buffers that it was for are gone. After it, the
        # two could overtake each other.
        self._consumer.resume(starts)
        self._consumer.assign(starts)
        now = time.monotonic()
        for topic, alignment in self.alignments.items():
            alignment.assign([at.partition for at in starts if at.topic == topic], now)
        self.assigned = True
        log.info("assigned", positions={f"{at.topic}:{at.partition}": at.offset for at in starts})

    def _lose(self, _consumer: Any, _partitions: Sequence[TopicPartition]) -> None:
        # No transaction is open while polling, so there is none to abort; what was taken is not
        # delivered.
        self._drop()
        for alignment in self.alignments.values():
            alignment.assign((), 0.0)
        self._without_since = time.monotonic()
        log.info("partitions given up")

    def _give_up_unless_kafka_is_away(self) -> None:
        """The client library can wait for ever for its turn (seen).

        It does when the group's coordinator moves while it joins, and when it has lost all brokers:
        so it is not the one to be asked.
        """
        self._without_since = time.monotonic()
        if not self.bookmarks.brokers_answer():
            log.warning("waiting for Kafka")
            return
        raise TallyError(
            f"no partitions for {MOST_SECONDS_WITHOUT:.0f} s though the brokers answer;"
            " start the process again"
        )

    def _drop(self) -> None:
        self._metadata = None
        self.forget()

    def _take(self, message: Message) -> int:
        error = message.error()
        if error is not None:
            self._event(error, message)
            return 0
        record = input_of(message)
        self.alignments[record.topic].add(record, self._reading.event_time(record))
        return 1

    def _event(self, error: KafkaError, message: Any) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self.alignments[message.topic()].end(message.partition())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            # Retention was faster than this reader; build.py has that told as an error.
            place = f"topic {message.topic()}, partition {message.partition()}"
            lost = f"records were deleted before they were read ({error.str()})"
            raise DataLoss(f"{place}: {lost}; {way_out(str(message.topic()), message.partition())}")
        elif error.code() == KafkaError._FATAL or error.fatal():
            raise TallyError(f"consumer: {error.str()}; start the process again")
        else:
            log.warning("consumer", error=error.str())

    def _remember_generation(self) -> None:
        current = self._consumer.consumer_group_metadata()
        # What lies in the buffers was read under the number before, and may be another member's by
        # now.
        if self._metadata is not None and current != self._metadata:
            raise Aborted("the group has changed while records were polled")
        self._metadata = current

    def _pause_and_resume(self) -> None:
        for topic, alignment in self.alignments.items():
            if full := alignment.to_pause():
                self._consumer.pause([TopicPartition(topic, partition) for partition in full])
            if low := alignment.to_resume():
                self._consumer.resume([TopicPartition(topic, partition) for partition in low])


def input_of(message: Any) -> Input:
    """A consumed message as the processor's record; header values without bytes are left out."""
    found = message.headers() or ()
    headers = [(name, value) for name, value in found if isinstance(value, bytes)]
    stamp = message.timestamp()[1]
    return Input(
        message.topic(),
        message.partition(),
        message.offset(),
        stamp,
        message.key(),
        message.value(),
        headers,
    )


def generation_of(metadata: bytes) -> int:
    """The group generation in the client library's serialised metadata; -1 when not a member.

    Raises TallyError when the metadata is of another format than the one that is known.
    """
    # The library has no call for it; the brokers let -1 without a member id pass unchecked.
    if not metadata.startswith(_METADATA_PREFIX):
        raise TallyError(
            "the Kafka client library writes group metadata in a new way;"
            " pin confluent-kafka to 2.16"
        )
    [generation] = struct.unpack_from("=i", metadata, len(_METADATA_PREFIX))
    return int(generation)
