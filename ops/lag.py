"""How far each part of the pipeline is behind, in records, from the brokers and the views."""

from collections.abc import Iterable
from dataclasses import dataclass

from cassandra.cluster import Session
from confluent_kafka import Consumer, TopicPartition

from schemas.loader import topics
from tally.connect import NORMALISER_GROUP, kafka_consumer
from tally.families import FAMILIES
from tally.settings import Settings

_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True)
class Lag:
    """Offsets not yet passed: normaliser over the raw topics, speed and master over the canonical topics."""

    raw_end: int
    normaliser: int
    speed: int
    master: int

    @property
    def total(self) -> int:
        """0 when everything that was sent has reached both layers."""
        return self.normaliser + self.speed + self.master


def read_lag(settings: Settings, session: Session) -> Lag:
    """The lag as it stands now."""
    raw = [entry["raw"] for name, entry in topics().items() if name in FAMILIES]
    consumer = kafka_consumer(settings, NORMALISER_GROUP)
    try:
        raw_ends, ends = _ends(consumer, raw), _ends(consumer, FAMILIES)
        committed = consumer.committed([TopicPartition(*key) for key in raw_ends], timeout=_TIMEOUT_SECONDS)
    finally:
        consumer.close()
    done = {(part.topic, part.partition): max(0, part.offset) for part in committed}
    return Lag(
        raw_end=sum(raw_ends.values()),
        normaliser=sum(max(0, end - done.get(key, 0)) for key, end in raw_ends.items()),
        speed=_behind(ends, session, "speed_progress"),
        master=_behind(ends, session, "master_position"),
    )


def _ends(consumer: Consumer, names: Iterable[str]) -> dict[tuple[str, int], int]:
    """End offset by (topic, partition): the last stable offset, since the consumer reads committed records only."""
    partitions = [(name, number) for name in names for number in consumer.list_topics(name, _TIMEOUT_SECONDS).topics[name].partitions]
    return {key: consumer.get_watermark_offsets(TopicPartition(*key), timeout=_TIMEOUT_SECONDS)[1] for key in partitions}


def _behind(ends: dict[tuple[str, int], int], session: Session, table: str) -> int:
    rows = session.execute(f"SELECT family, partition, until FROM {table}")
    reached = {(row.family, row.partition): row.until for row in rows}
    return sum(max(0, end - reached.get(key, 0)) for key, end in ends.items())
