"""By what a log is known again: its topic's id, and the last record read of each partition.

Offsets alone do not tell: a topic that was made anew, or a log that was cut and has grown again,
has the same ones.
"""

import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, TopicCollection, TopicPartition

from runtime.connect import kafka_admin, kafka_consumer
from tally.errors import StackError
from tally.settings import Settings

TIMEOUT_SECONDS = 30.0
# Topic, partition, offset.
Place = tuple[str, int, int]


class Mark(msgspec.Struct, frozen=True):
    """One record of a log: its offset, its Kafka timestamp, SHA-256 of its value.

    The timestamp is in milliseconds since 1970 (UTC).
    """

    offset: int
    timestamp_ms: int
    sha256: str


def mark(offset: int, timestamp_ms: int, value: bytes | None) -> Mark:
    """The mark of a record; a null value counts as an empty one."""
    return Mark(offset, timestamp_ms, sha256(value or b"").hexdigest())


def topic_ids(settings: Settings, topics: Iterable[str]) -> dict[str, str]:
    """Id of each topic: a topic that is deleted and created anew has another one.

    Raises KafkaException, or StackError without answer.
    """
    admin = kafka_admin(settings)
    described = admin.describe_topics(
        TopicCollection(list(topics)), request_timeout=TIMEOUT_SECONDS
    )
    try:
        return {
            name: str(found.result(TIMEOUT_SECONDS).topic_id) for name, found in described.items()
        }
    except TimeoutError as error:
        raise StackError(
            f"kafka at {settings.kafka}: no answer about its topics in {TIMEOUT_SECONDS:.0f} s"
        ) from error


def read_marks(settings: Settings, places: Iterable[Place]) -> dict[Place, Mark | None]:
    """The record at each place as it is in Kafka now; None where there is none.

    It was deleted or cut off then, or a transaction's marker lies there. Raises StackError when the
    brokers do not answer in time.
    """
    waiting = {
        (topic, partition): (topic, partition, offset) for topic, partition, offset in places
    }
    if not waiting:
        return {}
    # Uncommitted ones too: an open transaction further on must not keep the answer back.
    overrides = {
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    }
    consumer = kafka_consumer(settings, "marks", overrides)
    try:
        consumer.assign([TopicPartition(*place) for place in waiting.values()])
        return _answers(consumer, waiting, settings)
    finally:
        consumer.close()


def _answers(
    consumer: Consumer, waiting: Mapping[tuple[str, int], Place], settings: Settings
) -> dict[Place, Mark | None]:
    found: dict[Place, Mark | None] = {}
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(found) < len(waiting):
        if time.monotonic() > deadline:
            raise StackError(
                f"kafka at {settings.kafka}: {len(waiting) - len(found)} records were not read in"
                f" {TIMEOUT_SECONDS:.0f} s"
            )
        message = consumer.poll(0.2)
        place = (
            None
            if message is None
            else waiting.get((str(message.topic()), _number(message.partition())))
        )
        if (
            message is not None
            and place is not None
            and place not in found
            and _is_an_answer(message)
        ):
            found[place] = _mark_at(place, message)
            # What follows in the partition is not asked for.
            consumer.incremental_unassign([TopicPartition(*place[:2])])
    return found


def _is_an_answer(message: Message) -> bool:
    error = message.error()
    return error is None or error.code() in (
        KafkaError._PARTITION_EOF,
        KafkaError._AUTO_OFFSET_RESET,
    )


def _mark_at(place: Place, message: Message) -> Mark | None:
    if message.error() is not None or message.offset() != place[2]:
        return None
    return mark(place[2], message.timestamp()[1], _bytes(message.value()))


def _bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else None


def _number(partition: int | None) -> int:
    return -1 if partition is None else partition
