"""Readers of topics without a consumer group and without committed positions."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from runtime.connect import UNCOMMITTED, kafka_consumer
from runtime.kafka.offsets import Offsets
from runtime.kafka.topics import Bounds, PartitionId, partition_numbers, read_partition_bounds
from tally.config.settings import Settings
from tally.errors import StackError

IDLE_TIMEOUT_SECONDS = 30.0
_AT_ONCE, _POLL_SECONDS = 10_000, 0.02
# A broker delays the response that reports a partition's end by at most this. By default it waits
# half a second for records that are not needed here.
_FETCH_WAIT_MILLIS = 10
# Errors that show where a partition ends, or that it has no such offset.
_ANSWERS = (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET)
# How long skip_control_records() waits.
TIMEOUT_SECONDS = 10.0
# The fields are topic, partition and offset.
RecordPlace = tuple[str, int, int]


def read_to_end(
    settings: Settings, topics: Iterable[str], overrides: Mapping[str, Any] | None = None
) -> Iterator[Message]:
    """Every record of the topics, from the first that Kafka has to the current ends.

    Records of one partition come in its order. Only committed records are read, unless `overrides`
    of the consumer change that. Raises KafkaException, and StackError when the brokers stop
    answering.
    """
    with _consumer(settings, overrides) as consumer:
        waiting = {
            (topic, number): 0
            for topic in topics
            for number in partition_numbers(consumer, topic, IDLE_TIMEOUT_SECONDS)
        }
        yield from _records(consumer, settings, waiting)


def read_newest(settings: Settings, topic: str, most: int) -> Iterator[Message]:
    """The newest committed records of each partition of a topic, at most `most` of each.

    Raises KafkaException, and StackError when the brokers stop answering.
    """
    with _consumer(settings, None) as consumer:
        for number in partition_numbers(consumer, topic, IDLE_TIMEOUT_SECONDS):
            partition_id = (topic, number)
            end = read_partition_bounds(consumer, partition_id, IDLE_TIMEOUT_SECONDS).end
            yield from _records(consumer, settings, {partition_id: end}, max(0, end - most))


def read_to_high_watermark(
    settings: Settings, partition_ids: Collection[PartitionId]
) -> Iterator[Message]:
    """Every committed record that the partitions hold when the reading begins.

    It includes records whose transaction has not ended yet, or whose end has not reached their
    partition: it is written to the partitions one after the other. Example with records a and b,
    and with c in a transaction whose commit is under way:

        written               | 3: a, b, c
        stable                | 2: a, b
        read_to_end()         | a, b
        read_to_high_watermark() | a, b; then it waits, and c follows unless it was aborted

    Raises KafkaException, and StackError when nothing more comes for IDLE_TIMEOUT_SECONDS.
    """
    if not partition_ids:
        return
    # A consumer of committed records would get the stable end.
    with _consumer(settings, UNCOMMITTED) as consumer:
        written = {
            partition_id: read_partition_bounds(consumer, partition_id, IDLE_TIMEOUT_SECONDS).end
            for partition_id in partition_ids
        }
    with _consumer(settings, None) as consumer:
        yield from _records(consumer, settings, written)


def read_until(
    settings: Settings, partition_id: PartitionId, until: int, start: int = 0
) -> Iterator[Message]:
    """Every committed record of the partition from `start` on whose offset is below `until`.

    Raises KafkaException, and StackError when the partition has not reached `until` and nothing
    more comes for IDLE_TIMEOUT_SECONDS.
    """
    with _consumer(settings, None) as consumer:
        for message in _records(consumer, settings, {partition_id: until}, start):
            if (message.offset() or 0) < until:
                yield message


def _records(
    consumer: Any, settings: Settings, waiting: dict[PartitionId, int], start: int = 0
) -> Iterator[Message]:
    """The records of the partitions, until each has ended at its offset or after it."""
    consumer.assign([TopicPartition(*partition_id, start) for partition_id in waiting])
    last_heard = time.monotonic()
    while waiting:
        messages = consumer.consume(_AT_ONCE, _POLL_SECONDS)
        for message in messages:
            error = message.error()
            if error is None:
                yield message
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            # Partitions are counted by name: one that grows meanwhile reports several ends.
            elif (message.offset() or 0) >= waiting.get(_partition_id(message), 0):
                waiting.pop(_partition_id(message), None)
        if messages:
            last_heard = time.monotonic()
        # The client library retries for ever in silence: with a dead broker an audit would not
        # end.
        elif time.monotonic() - last_heard > IDLE_TIMEOUT_SECONDS:
            raise _timeout_error(settings, IDLE_TIMEOUT_SECONDS, waiting)


def first_records(
    settings: Settings,
    places: Iterable[RecordPlace],
    seconds: float,
    overrides: Mapping[str, Any] | None = None,
) -> dict[RecordPlace, Message | None]:
    """The first record at or after each place, of different partitions; None where none follows.

    None also where only transaction markers follow, and with `auto.offset.reset` at "error" for an
    offset that Kafka no longer has, or not yet. Raises StackError when the brokers have not
    answered for all places in so many seconds.
    """
    waiting = {place[:2]: place for place in places}
    if not waiting:
        return {}
    with _consumer(settings, overrides) as consumer:
        consumer.assign([TopicPartition(*place) for place in waiting.values()])
        return _collect_answers(consumer, waiting, settings, seconds)


def _collect_answers(
    consumer: Any, waiting: dict[PartitionId, RecordPlace], settings: Settings, seconds: float
) -> dict[RecordPlace, Message | None]:
    found: dict[RecordPlace, Message | None] = {}
    deadline = time.monotonic() + seconds
    while waiting:
        if time.monotonic() > deadline:
            raise _timeout_error(settings, seconds, waiting)
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error = message.error()
        # The client itself retries after any other error.
        if error is not None and error.code() not in _ANSWERS:
            continue
        # A record or the end is an answer: where only markers follow there is no wait.
        place = waiting.pop(_partition_id(message), None)
        if place is not None:
            found[place] = message if error is None else None
            # Later records of the partition are not needed.
            consumer.incremental_unassign([TopicPartition(*place[:2])])
    return found


def _partition_id(message: Message) -> PartitionId:
    return str(message.topic()), int(message.partition() or 0)


def _consumer(settings: Settings, overrides: Mapping[str, Any] | None) -> Consumer:
    # The consumer never joins the group or commits in it: the client only requires a name.
    to_the_end = {"enable.partition.eof": True, "fetch.wait.max.ms": _FETCH_WAIT_MILLIS}
    return kafka_consumer(settings, f"reading-{uuid4()}", {**to_the_end, **(overrides or {})})


def _timeout_error(
    settings: Settings, seconds: float, waiting: Iterable[PartitionId]
) -> StackError:
    named = [f"{topic}:{number}" for topic, number in sorted(waiting)]
    return StackError(
        f"kafka at {settings.kafka}: no answer about {', '.join(named[:3])} in {seconds:.0f} s;"
        " `tally doctor` looks for the cause"
    )


def skip_control_records(
    settings: Settings, topic: str, positions: Offsets, kept: Mapping[int, Bounds]
) -> dict[int, int]:
    """The first offset at or after the position with a committed record, by partition.

    It is the stable end where none follows: a position right after the last record never reaches
    the end of a partition that ends in markers or aborted records. `kept`: bounds of committed
    records, read after the positions. A position before the first offset kept stays: the records
    there are unknown. Raises StackError when Kafka does not answer in time.
    """
    places = [
        (topic, number, at)
        for number, at in positions.items()
        if number in kept and kept[number].earliest <= at < kept[number].end
    ]
    moved = dict(positions)
    for (_, number, _), first in first_records(settings, places, TIMEOUT_SECONDS).items():
        # To the end at the time of the read, not the current one: a record may follow it by now.
        moved[number] = kept[number].end
        if first is not None:
            moved[number] = int(first.offset() or 0)
    return moved
