"""The records of a topic as they come, for a reader that keeps its place itself."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple, Self
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from runtime.connect import kafka_consumer
from runtime.marks import topic_ids
from runtime.topics import Bounds, bounds
from tally.errors import StackError
from tally.settings import Settings

_ASK_SECONDS = 10.0
# So long a broker waits for a record before it says that there is none.
_FETCH_WAIT_MILLIS = 200


class TailedRecord(NamedTuple):
    """A committed record: where it lies, and what it is."""

    partition: int
    offset: int
    value: bytes


class TopicNow(NamedTuple):
    """What Kafka has of a topic: its id, and the bounds of each partition for committed records."""

    topic_id: str
    bounds: tuple[Bounds, ...]


def topic_now(settings: Settings, topic: str) -> TopicNow:
    """The topic as it is. Raises StackError when there is none, or no answer."""
    topic_id = topic_id_now(settings, topic)
    with (
        _told(settings, topic),
        kafka_consumer(settings, f"tail-{uuid4()}") as consumer,
    ):
        found = bounds(consumer, topic, _ASK_SECONDS)
    return TopicNow(topic_id, tuple(found[number] for number in sorted(found)))


def topic_id_now(settings: Settings, topic: str) -> str:
    """The topic's id: another one once it was made anew. Raises StackError as topic_now()."""
    with _told(settings, topic):
        return topic_ids(settings, [topic])[topic]


class Tail:
    """Committed records of one topic from these offsets on, by partition.

    Nobody joins a group and no position is kept: `until` says how far each partition has been read,
    markers and what was aborted included; `ended` has those that are read to their ends.
    """

    def __init__(self, settings: Settings, topic: str, offsets: Mapping[int, int]) -> None:
        self.until = dict(offsets)
        self.ended: set[int] = set()
        self._asked = settings, topic
        overrides = {
            "enable.partition.eof": True,
            # Deleted before read is an error, never a silent jump.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": _FETCH_WAIT_MILLIS,
        }
        self._consumer = kafka_consumer(settings, f"tail-{uuid4()}", overrides)
        self._consumer.assign([TopicPartition(topic, *one) for one in offsets.items()])

    def read(self, most: int, seconds: float) -> list[TailedRecord]:
        """What has come, at most so many; it waits so long for the first.

        Raises StackError, also when there is no record any more, or not yet, at an offset.
        """
        with _told(*self._asked):
            first = self._consumer.poll(seconds)
            if first is None:
                return []
            # consume() alone would wait for as many as it may bring.
            messages = [first, *self._consumer.consume(most - 1, 0.0)]
            return [record for one in messages if (record := self._taken(one)) is not None]

    def _taken(self, message: Message) -> TailedRecord | None:
        partition, offset = message.partition() or 0, message.offset() or 0
        error = message.error()
        if error is None:
            self.ended.discard(partition)
            self.until[partition] = offset + 1
            return TailedRecord(partition, offset, message.value() or b"")
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self.ended.add(partition)
        # Behind markers too: who is told of no record still moves on.
        self.until[partition] = max(self.until[partition], offset)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()


@contextmanager
def _told(settings: Settings, topic: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise StackError(
            f"kafka at {settings.kafka}, topic {topic}: {error.args[0].str()};"
            " `tally doctor` looks for the cause"
        ) from error
