"""Up to where an audit counts: ends that are read first.

So what arrives meanwhile makes no difference.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from cassandra.cluster import Session
from confluent_kafka import TopicPartition

from runtime.connect import NORMALISER_GROUP, kafka_consumer
from schemas.loader import topics
from tally.families import FAMILIES
from tally.settings import Settings

_TIMEOUT_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.5
# Beside the time between two appends to the master: the normaliser's transaction, the append
# itself.
_PATIENCE_SECONDS = 30.0

# By topic and partition.
Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Cut:
    """Ends of the raw topics at one moment, and ends of the canonical topics after it.

    Those are read once the normaliser had passed the raw ones.
    """

    raw: Offsets
    canonical: Offsets


def settled_cut(settings: Settings, session: Session) -> Cut:
    """The cut of now, when the master holds all of it.

    After a while it is returned without: what is missing then is a difference.
    """
    deadline = time.monotonic() + settings.ingest_trigger_seconds + _PATIENCE_SECONDS
    raw = _ends(settings, [topics()[family]["raw"] for family in FAMILIES])
    _wait(lambda: _is_reached(raw, _normalised(settings, raw)), deadline)
    canonical = _ends(settings, FAMILIES)
    _wait(lambda: _is_reached(canonical, _held(session)), deadline)
    return Cut(raw, canonical)


def _wait(condition: Callable[[], bool], deadline: float) -> None:
    while not condition() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_SECONDS)


def _is_reached(ends: Offsets, reached: Offsets) -> bool:
    return all(
        reached.get(topic, {}).get(number, 0) >= end
        for topic, of in ends.items()
        for number, end in of.items()
    )


def _ends(settings: Settings, names: Iterable[str]) -> Offsets:
    """First offset by partition that a reader of committed records cannot have yet."""
    consumer = kafka_consumer(settings, f"audit-{uuid4()}")
    try:
        return {
            name: {
                number: consumer.get_watermark_offsets(
                    TopicPartition(name, number), timeout=_TIMEOUT_SECONDS
                )[1]
                for number in consumer.list_topics(name, _TIMEOUT_SECONDS).topics[name].partitions
            }
            for name in names
        }
    finally:
        consumer.close()


def _normalised(settings: Settings, raw: Offsets) -> Offsets:
    consumer = kafka_consumer(settings, NORMALISER_GROUP)
    try:
        asked = [TopicPartition(topic, number) for topic, of in raw.items() for number in of]
        reached: dict[str, dict[int, int]] = {}
        for part in consumer.committed(asked, timeout=_TIMEOUT_SECONDS):
            reached.setdefault(part.topic, {})[part.partition] = max(0, part.offset)
        return reached
    finally:
        consumer.close()


def _held(session: Session) -> Offsets:
    reached: dict[str, dict[int, int]] = {}
    for row in session.execute("SELECT family, partition, until FROM master_position"):
        reached.setdefault(row.family, {})[row.partition] = row.until
    return reached
