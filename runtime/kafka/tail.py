"""The records of a topic as they arrive, for a reader that stores its own position."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from runtime.connect import kafka_consumer
from runtime.kafka.log_identity import read_topic_ids
from runtime.kafka.topics import Bounds, read_topic_bounds
from tally.config.settings import Settings
from tally.errors import StackError

_REQUEST_SECONDS = 10.0
# A broker waits for a record for this long before it answers that there is none.
_FETCH_WAIT_MILLIS = 200


class TopicRecord(NamedTuple):
    """A committed record: its place and its value."""

    partition: int
    offset: int
    value: bytes


class TopicState(NamedTuple):
    """A topic's id, and the bounds of each partition for committed records."""

    topic_id: str
    bounds: tuple[Bounds, ...]


def read_topic_state(settings: Settings, topic: str) -> TopicState:
    """The topic as it is now. Raises StackError when it does not exist, or without an answer."""
    topic_id = read_topic_id(settings, topic)
    group = f"tail-{uuid4()}"
    with _raise_stack_errors(settings, topic), kafka_consumer(settings, group) as consumer:
        found = read_topic_bounds(consumer, topic, _REQUEST_SECONDS)
    return TopicState(topic_id, tuple(found[number] for number in sorted(found)))


def read_topic_id(settings: Settings, topic: str) -> str:
    """The topic's id, another one after it is re-created. Raises StackError."""
    with _raise_stack_errors(settings, topic):
        return read_topic_ids(settings, [topic])[topic]


class Tail(AbstractContextManager["Tail"]):
    """Committed records of one topic from these offsets on, by partition.

    It joins no group and commits no position: `until` has how far each partition has been read,
    markers and aborted records included; `ended` has the partitions that are read to their ends.
    """

    def __init__(self, settings: Settings, topic: str, offsets: Mapping[int, int]) -> None:
        self.until = dict(offsets)
        self.ended: set[int] = set()
        self._place = settings, topic
        overrides = {
            "enable.partition.eof": True,
            # A record deleted before it is read is an error, never silently skipped.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": _FETCH_WAIT_MILLIS,
        }
        self._consumer = kafka_consumer(settings, f"tail-{uuid4()}", overrides)
        self._consumer.assign([TopicPartition(topic, *position) for position in offsets.items()])

    def read(self, most: int, seconds: float) -> list[TopicRecord]:
        """The records that have arrived, at most `most`; waits up to `seconds` for the first.

        Raises StackError, also when there is no record any more, or not yet, at an offset.
        """
        with _raise_stack_errors(*self._place):
            first = self._consumer.poll(seconds)
            if first is None:
                return []
            # consume() alone would wait until it has as many as it may return.
            messages = [first, *self._consumer.consume(most - 1, 0.0)]
            taken = [self._take_message(message) for message in messages]
            return [record for record in taken if record is not None]

    def _take_message(self, message: Message) -> TopicRecord | None:
        partition, offset = message.partition() or 0, message.offset() or 0
        error = message.error()
        if error is None:
            self.ended.discard(partition)
            self.until[partition] = offset + 1
            return TopicRecord(partition, offset, message.value() or b"")
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self.ended.add(partition)
        # The position moves past markers too, for which no record is delivered.
        self.until[partition] = max(self.until[partition], offset)
        return None

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()


@contextmanager
def _raise_stack_errors(settings: Settings, topic: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise StackError(
            f"kafka at {settings.kafka}, topic {topic}: {error.args[0].str()};"
            " `tally doctor` looks for the cause"
        ) from error
