"""How far each part of the pipeline is behind, in records and in seconds.

The brokers and the views tell.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cassandra.cluster import Session
from confluent_kafka import Consumer, KafkaError, TopicPartition

from runtime.connect import NORMALISER_GROUP, kafka_consumer
from schemas.loader import topics
from tally.errors import StackError
from tally.families import FAMILIES
from tally.settings import Settings

_TIMEOUT_SECONDS = 15.0
_POLL_SECONDS = 0.5

# First offset that is not read yet, or that is not written yet, by (topic, partition).
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Lag:
    """Offsets not yet passed: normaliser over raw topics, speed and master over canonical ones."""

    raw_end: int
    normaliser: int
    speed: int
    master: int

    @property
    def total(self) -> int:
        """0 when everything that was sent has reached both layers."""
        return self.normaliser + self.speed + self.master


@dataclass(frozen=True)
class Waiting:
    """Seconds since the arrival of the oldest record that each has not read.

    0 when it has read everything.
    """

    normaliser: float
    speed: float
    master: float


@dataclass(frozen=True)
class _Reach:
    """Ends of the topics, and where each reader is."""

    raw_ends: Offsets
    ends: Offsets
    normaliser: Offsets
    speed: Offsets
    master: Offsets


def read_lag(settings: Settings, session: Session) -> Lag:
    """The lag as it stands now."""
    reach = _reach(settings, session)
    return Lag(
        raw_end=sum(reach.raw_ends.values()),
        normaliser=_records(reach.normaliser, reach.raw_ends),
        speed=_records(reach.speed, reach.ends),
        master=_records(reach.master, reach.ends),
    )


def read_waiting(settings: Settings, session: Session) -> Waiting:
    """For how long the oldest unread record of each reader has waited.

    Raises StackError when the brokers do not answer.
    """
    reach = _reach(settings, session)
    return Waiting(
        normaliser=_seconds(settings, reach.normaliser, reach.raw_ends),
        speed=_seconds(settings, reach.speed, reach.ends),
        master=_seconds(settings, reach.master, reach.ends),
    )


def _reach(settings: Settings, session: Session) -> _Reach:
    raw = [entry["raw"] for name, entry in topics().items() if name in FAMILIES]
    consumer = kafka_consumer(settings, NORMALISER_GROUP)
    try:
        raw_ends, ends = _ends(consumer, raw), _ends(consumer, FAMILIES)
        committed = consumer.committed(
            [TopicPartition(*key) for key in raw_ends], timeout=_TIMEOUT_SECONDS
        )
    finally:
        consumer.close()
    done = {(part.topic, part.partition): max(0, part.offset) for part in committed}
    return _Reach(
        raw_ends,
        ends,
        done,
        _reached(session, "speed_progress"),
        _reached(session, "master_position"),
    )


def _ends(consumer: Consumer, names: Iterable[str]) -> dict[tuple[str, int], int]:
    """End offset by (topic, partition).

    It is the last stable offset, since the consumer reads committed records only.
    """
    partitions = [
        (name, number)
        for name in names
        for number in consumer.list_topics(name, _TIMEOUT_SECONDS).topics[name].partitions
    ]
    return {
        key: consumer.get_watermark_offsets(TopicPartition(*key), timeout=_TIMEOUT_SECONDS)[1]
        for key in partitions
    }


def _reached(session: Session, table: str) -> Offsets:
    rows = session.execute(f"SELECT family, partition, until FROM {table}")
    return {(row.family, row.partition): row.until for row in rows}


def _records(reached: Offsets, ends: Offsets) -> int:
    return sum(max(0, end - reached.get(key, 0)) for key, end in ends.items())


def _seconds(settings: Settings, reached: Offsets, ends: Offsets) -> float:
    unread = {key: reached.get(key, 0) for key, end in ends.items() if reached.get(key, 0) < end}
    arrivals = _first_arrivals(settings, unread) if unread else []
    return max(0.0, time.time() - min(arrivals)) if arrivals else 0.0


def _first_arrivals(settings: Settings, unread: Offsets) -> list[float]:
    """Arrival (seconds since 1970) of the first record at or after each position.

    None of a partition where only markers of transactions follow.
    """
    consumer = kafka_consumer(settings, "lag", {"enable.partition.eof": True})
    waiting, found, deadline = set(unread), list[float](), time.monotonic() + _TIMEOUT_SECONDS
    try:
        consumer.assign([TopicPartition(*key, offset) for key, offset in unread.items()])
        while waiting and time.monotonic() < deadline:
            message = consumer.poll(_POLL_SECONDS)
            error = message.error() if message else None
            if message is None or (error is not None and error.code() != KafkaError._PARTITION_EOF):
                continue  # the client tries again by itself
            key = (message.topic() or "", message.partition() or 0)
            if error is None and key in waiting:
                found.append(message.timestamp()[1] / 1000)
            waiting.discard(key)
    finally:
        consumer.close()
    if waiting:
        raise StackError(
            f"kafka at {settings.kafka}: no answer within {_TIMEOUT_SECONDS:.0f} s;"
            " look into its log"
        )
    return found
