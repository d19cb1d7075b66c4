"""Where the master dataset and Kafka stand: identities of topics, first offset not held, offsets kept by the brokers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from tally.connect import kafka_consumer
from tally.errors import DataLoss
from tally.settings import Settings

TIMEOUT_SECONDS = 30.0
Until = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class Held:
    """What the master dataset holds: by topic its id, and by partition the first offset that it does not hold."""

    topic_ids: Mapping[str, str]
    until: Until

    def as_metadata(self) -> str:
        """The text that goes into the Delta commit (userMetadata)."""
        return json.dumps({"topic_ids": dict(self.topic_ids), "until": {topic: dict(offsets) for topic, offsets in self.until.items()}})


NOTHING_HELD = Held({}, {})


def held_by(path: Path, version: int | None = None) -> Held:
    """What the newest append up to a version (None: the newest) says that the table holds.

    Commits without such a note (compaction) are passed over.
    """
    if not DeltaTable.is_deltatable(str(path)):
        return NOTHING_HELD
    # Opened at its newest version: opened at an older one, delta-rs numbers the commits of the history wrongly.
    table = DeltaTable(str(path))
    wanted = table.version() if version is None else version
    # Nearly always the newest commit has the note: look at ever more of them.
    for limit in (1, 100, None):
        for commit in table.history(limit):
            note = commit.get("userMetadata")
            if note and commit["version"] <= wanted:
                return _from_metadata(note)
    return NOTHING_HELD


def _from_metadata(note: str) -> Held:
    kept = json.loads(note)
    return Held(kept["topic_ids"], {topic: _numbered(offsets) for topic, offsets in kept["until"].items()})


def _numbered(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in offsets.items()}


def topic_ids(settings: Settings, topics: Iterable[str]) -> dict[str, str]:
    """Id of each topic: a topic that is deleted and created anew has another one."""
    admin = AdminClient({"bootstrap.servers": settings.kafka})
    described = admin.describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_SECONDS)
    return {name: str(found.result(TIMEOUT_SECONDS).topic_id) for name, found in described.items()}


def kept_offsets(settings: Settings, topics: Iterable[str], isolation: str = "read_committed") -> dict[str, dict[int, tuple[int, int]]]:
    """By topic and partition: first offset that Kafka still keeps, and the last stable offset (first one not readable yet).

    With isolation `read_uncommitted` the end is that of the partition, open transactions included.
    """
    consumer = kafka_consumer(settings, "master-offsets", {"isolation.level": isolation})
    try:
        return {
            topic: {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_SECONDS)
                for number in consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions
            }
            for topic in topics
        }
    finally:
        consumer.close()


def starting_offsets(held: Held, ids: Mapping[str, str], kept: Mapping[str, Mapping[int, tuple[int, int]]]) -> dict[str, dict[int, int]]:
    """First offset to append next, by topic and partition.

    Raises DataLoss when Kafka no longer keeps it, or when the topic is another one than the table's records came from.
    """
    starting: dict[str, dict[int, int]] = {}
    for topic, partitions in kept.items():
        if held.topic_ids.get(topic, ids[topic]) != ids[topic]:
            raise DataLoss(
                f"topic {topic} was deleted and created anew: its offsets would repeat those of the master dataset; "
                f"begin a new master dataset in another TALLY_HOME"
            )
        starting[topic] = {}
        for number, (earliest, end) in partitions.items():
            wanted = held.until.get(topic, {}).get(number, 0)
            if not earliest <= wanted <= end:
                raise DataLoss(
                    f"topic {topic} partition {number}: the master dataset goes on at offset {wanted}, Kafka keeps {earliest} to {end}; "
                    f"records are missing, restore them from a backup of the topic or of the master dataset"
                )
            starting[topic][number] = wanted
    return starting
