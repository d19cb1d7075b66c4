"""The consumer's side: records into the alignment buffers, also when the group changes.

The brokers divide the partitions among the members of a group, and number each division: its
generation. They check positions that come with a transaction by member and generation (KIP-447),
never by the owner of the partition: a member that was removed and has joined again passes with its
new number, though another one has meanwhile stored what it had read before. A broker was seen to
accept such a transaction, and the records were there twice. Therefore

- the group's metadata is read right after the poll that brought records, and again when they are
  delivered; if both differ, or have no generation (-1), nothing is stored (`check_metadata`);
- records of two generations never lie in the buffers together (`_remember_generation`);
- when partitions are assigned, revoked or lost, everything buffered, and everything taken from the
  buffers, is dropped before the callback returns; both resume at the committed positions;
- these are read at each assignment, by a consumer of committed records, which waits for the end of
  a predecessor's transaction (positions.py); the step's state is read after them (loop.py).

The life of the buffers:

    subscribe()    no partitions are assigned
    _assign()      dropped, positions and state read,      by poll(), at the first and any later one
                   buffers empty
    poll()         records and ends of partitions come; full ones are paused, low ones resumed
    rewind()       like an assignment of the same ones     after an aborted transaction, or a new
                   producer
    _drop_partitions()
                   dropped, no partitions are assigned     by poll(); an assignment follows, or, if
                   the client library hangs, none, and after 75 s the process ends
    close()        leaves the group, then closes           at the end; assignments are now ignored
"""

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import KafkaError, Message, TopicPartition

from runtime.kafka.log_identity import recovery_advice
from runtime.processor.alignment import Alignment, AlignmentLimits
from runtime.processor.positions import GroupPositions
from runtime.processor.step import EventTime, Input
from tally.errors import DataLoss, TallyError, TransactionAborted

_METADATA_PREFIX = b"CGMDv2:"
_NO_GENERATION = -1
# Longer than any rebalance takes: it waits for `max.poll.interval.ms` at most, a minute, for a
# member that has gone.
MAX_UNASSIGNED_SECONDS = 75.0
_MAX_SECONDS_LEAVING = 5.0

log = structlog.get_logger()


@dataclass(frozen=True)
class IntakeOptions:
    """The topics that are read, and how their records are put in order."""

    topics: tuple[str, ...]
    event_time: EventTime
    limits: AlignmentLimits
    most_records: int = 500


class Intake:
    """Buffers of all topics.

    `forget` is called whenever records taken from them must not be delivered any more; `restore`,
    with all assigned partitions, once the positions are known and before anything is read.
    """

    def __init__(self, consumer: Any, options: IntakeOptions, positions: GroupPositions) -> None:
        self._consumer, self._options, self.positions = consumer, options, positions
        # The most records that one poll returns.
        self.most_records = options.most_records
        self.forget: Callable[[], None] = lambda: None
        self.restore: Callable[[Sequence[TopicPartition]], None] = lambda _assigned: None
        self._metadata: bytes | None = None
        self.is_assigned = False
        self._is_leaving = False
        # The monotonic time since when no partitions are assigned.
        self._unassigned_since: float | None = None
        self.alignments = {topic: Alignment(options.limits) for topic in options.topics}

    def subscribe(self) -> None:
        """Join the group. The producer must be ready before: an assignment reads positions."""
        self._unassigned_since = time.monotonic()
        self._consumer.subscribe(
            list(self._options.topics),
            on_assign=self._assign,
            on_revoke=self._drop_partitions,
            on_lost=self._drop_partitions,
        )

    def poll(self, wait_seconds: float) -> int:
        """Buffer the records that have arrived and return their number.

        Raises DataLoss, TransactionAborted or TallyError.
        """
        messages = self._consumer.consume(self.most_records, wait_seconds)
        received = sum([self._buffer(message) for message in messages])
        if received:
            self._remember_generation()
        self._pause_and_resume()
        since = self._unassigned_since
        if since is not None and time.monotonic() - since > MAX_UNASSIGNED_SECONDS:
            self._fail_if_brokers_answer()
        return received

    def check_metadata(self) -> Any:
        """Read the group metadata again and return it if it is that of the buffered records' poll.

        Raises TransactionAborted otherwise.
        """
        current = self._consumer.consumer_group_metadata()
        if current != self._metadata or parse_generation(current) == _NO_GENERATION:
            raise TransactionAborted("the group has changed since the records were polled")
        return current

    @property
    def is_behind(self) -> bool:
        """Whether there is, or may be, something to do.

        That is when records are buffered, a partition has not been read to its end, or the
        assignment is not known yet.
        """
        return self._unassigned_since is not None or any(
            alignment.is_behind() for alignment in self.alignments.values()
        )

    def rewind(self) -> None:
        """Forget everything read and go back to the positions committed at the brokers."""
        self._start_at_positions(self._consumer.assignment())

    def close(self) -> None:
        """Leave the group, and only then close the consumer."""
        # If closed at once, the client library delivers a pending assignment in the middle of it:
        # reading positions then fails with an error that no `except` catches, or blocks the process
        # for half a minute, or for ever (seen; librdkafka's issue 4884).
        self._is_leaving = True
        self._consumer.unsubscribe()
        until = time.monotonic() + _MAX_SECONDS_LEAVING
        self._consumer.poll(0.1)
        while self._consumer.assignment() and time.monotonic() < until:
            self._consumer.poll(0.1)
        self._consumer.close()

    def _assign(self, _consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        if self._is_leaving:
            return
        self._start_at_positions(partitions)
        self._unassigned_since = None

    def _start_at_positions(self, partitions: Sequence[TopicPartition]) -> None:
        # Dropped before the positions are read: records still buffered are of an earlier division.
        self._drop()
        starts = self.positions.start_positions(partitions)
        # Restored after the positions: the state of every transaction that they include is in the
        # log by now. Read before, it could lack state whose records will not come again.
        self.restore(starts)
        # A pause outlives an assignment, and its buffers are gone. Called after assign(), the two
        # could overtake each other.
        self._consumer.resume(starts)
        self._consumer.assign(starts)
        now = time.monotonic()
        for topic, alignment in self.alignments.items():
            alignment.assign([at.partition for at in starts if at.topic == topic], now)
        self.is_assigned = True
        log.info("assigned", positions={f"{at.topic}:{at.partition}": at.offset for at in starts})

    def _drop_partitions(self, _consumer: Any, _partitions: Sequence[TopicPartition]) -> None:
        # No transaction is open while polling, so there is none to abort; taken records are not
        # delivered.
        self._drop()
        for alignment in self.alignments.values():
            alignment.assign((), 0.0)
        self._unassigned_since = time.monotonic()
        log.info("partitions given up")

    def _fail_if_brokers_answer(self) -> None:
        """Raise TallyError if a new client reaches the brokers and this one has no partitions.

        The client library can wait for an assignment for ever (seen), when the group's coordinator
        moves while it joins, and when it has lost all brokers: so a new client checks the brokers.
        """
        self._unassigned_since = time.monotonic()
        if not self.positions.brokers_answer():
            log.warning("waiting for Kafka")
            return
        raise TallyError(
            f"no partitions for {MAX_UNASSIGNED_SECONDS:.0f} s though the brokers answer;"
            " start the process again"
        )

    def _drop(self) -> None:
        self._metadata = None
        self.forget()

    def _buffer(self, message: Message) -> int:
        error = message.error()
        if error is not None:
            self._handle_error(error, message)
            return 0
        record = to_input(message)
        self.alignments[record.topic].add(record, self._options.event_time(record))
        return 1

    def _handle_error(self, error: KafkaError, message: Any) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self.alignments[message.topic()].mark_ended(message.partition())
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            # Retention was faster than this reader; service.py configures that as an error.
            topic, partition = str(message.topic()), message.partition()
            raise DataLoss(
                f"topic {topic}, partition {partition}: records were deleted before they were read"
                f" ({error.str()}); {recovery_advice(topic, partition)}"
            )
        elif error.code() == KafkaError._FATAL or error.fatal():
            raise TallyError(f"consumer: {error.str()}; start the process again")
        else:
            log.warning("consumer", error=error.str())

    def _remember_generation(self) -> None:
        current = self._consumer.consumer_group_metadata()
        # Buffered records were read under the earlier generation, and their partitions may be
        # another member's by now.
        if self._metadata is not None and current != self._metadata:
            raise TransactionAborted("the group has changed while records were polled")
        self._metadata = current

    def _pause_and_resume(self) -> None:
        for topic, alignment in self.alignments.items():
            if full := alignment.to_pause():
                self._consumer.pause([TopicPartition(topic, partition) for partition in full])
            if low := alignment.to_resume():
                self._consumer.resume([TopicPartition(topic, partition) for partition in low])


def to_input(message: Any) -> Input:
    """Convert a consumed message to an Input; headers whose value is not bytes are left out."""
    found = message.headers() or ()
    headers = [(name, value) for name, value in found if isinstance(value, bytes)]
    place = message.topic(), message.partition(), message.offset()
    stamp = message.timestamp()[1]
    return Input(*place, stamp, message.key(), message.value(), headers)


def parse_generation(metadata: bytes) -> int:
    """The group generation in the client library's serialised metadata; -1 when not a member.

    Raises TallyError when the metadata is in another format than the known one.
    """
    # The library has no call for it; brokers accept -1 without a member id unchecked.
    if not metadata.startswith(_METADATA_PREFIX):
        raise TallyError(
            "the Kafka client library writes group metadata in a new way;"
            " pin confluent-kafka to 2.16"
        )
    return int(struct.unpack_from("=i", metadata, len(_METADATA_PREFIX))[0])
