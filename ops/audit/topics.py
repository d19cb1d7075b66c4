"""What Kafka itself holds: committed records counted by reading them, and the dead letters."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from runtime.connect import kafka_consumer
from tally.errors import TallyError
from tally.settings import Settings

_TIMEOUT_SECONDS = 30.0
_BATCH = 10_000


@dataclass(frozen=True)
class Span:
    """Offsets [first, until) of one partition, and how many committed records Kafka keeps of it."""

    first: int
    until: int
    committed: int


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter: why, and the coordinates of the original."""

    reason: str
    topic: str
    partition: int
    offset: int


def committed_spans(settings: Settings, topic: str, until: Mapping[int, int]) -> dict[int, Span]:
    """The committed records before the given offsets that Kafka still keeps.

    They are counted by reading; markers do not count.
    """
    counts: Counter[int] = Counter()
    firsts: dict[int, int] = {}

    def count(message: Message) -> None:
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if offset < until.get(partition, 0):
            counts[partition] += 1
            firsts.setdefault(partition, offset)

    _each_message(settings, topic, count)
    return {
        partition: Span(firsts.get(partition, end), end, counts[partition])
        for partition, end in until.items()
    }


def committed_counts(settings: Settings, topic: str) -> dict[int, int]:
    """Committed records by partition of the topic, counted by reading it.

    Markers and aborted records do not count.
    """
    counts: Counter[int] = Counter()
    partitions = _each_message(
        settings, topic, lambda message: counts.update([int(message.partition() or 0)])
    )
    return {partition: counts[partition] for partition in partitions}


def dead_letters(settings: Settings) -> set[DeadLetter]:
    """Every dead letter once: a repeat has the same coordinates and reason."""
    found: set[DeadLetter] = set()
    _each_message(settings, "dead-letters", lambda message: found.add(_dead_letter(message)))
    return found


def _dead_letter(message: Message) -> DeadLetter:
    headers = {
        name: value.decode() if isinstance(value, bytes) else str(value)
        for name, value in dict(message.headers() or ()).items()
    }
    return DeadLetter(
        headers["reason"], headers["topic"], int(headers["partition"]), int(headers["offset"])
    )


def _each_message(settings: Settings, topic: str, handle: Callable[[Message], object]) -> list[int]:
    """Hand over every committed message from the beginning to the end as it is now.

    Returns the partitions.
    """
    consumer = kafka_consumer(settings, f"audit-{uuid4()}", {"enable.partition.eof": True})
    try:
        partitions = _partitions(consumer, topic)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        for message in _until_end(consumer, topic, len(partitions)):
            handle(message)
        return partitions
    finally:
        consumer.close()


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    metadata = consumer.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic]
    if metadata.error is not None:
        raise TallyError(f"topic {topic}: {metadata.error.str()}; start the stack with `tally up`")
    return sorted(metadata.partitions)


def _until_end(consumer: Consumer, topic: str, partitions: int) -> Iterator[Message]:
    ended: set[int] = set()
    heard = time.monotonic()
    while len(ended) < partitions:
        messages = consumer.consume(_BATCH, timeout=1.0)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _TIMEOUT_SECONDS:
            raise TallyError(
                f"topic {topic}: Kafka has not answered for {_TIMEOUT_SECONDS:.0f} s;"
                " `tally doctor` looks for the cause"
            )
        for message in messages:
            error = message.error()
            if error is None:
                yield message
            elif error.name() == "_PARTITION_EOF":
                ended.add(int(message.partition() or 0))
            else:
                raise KafkaException(error)
