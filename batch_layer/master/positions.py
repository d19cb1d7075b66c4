"""Where the master dataset and Kafka stand.

Identities of topics, first offset not held, offsets kept by the brokers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from confluent_kafka import TopicPartition
from deltalake import DeltaTable

from runtime.connect import kafka_consumer
from runtime.marks import Mark, Place
from tally.errors import DataLoss
from tally.settings import Settings

TIMEOUT_SECONDS = 30.0
_BEGIN_ANEW = (
    "its offsets would repeat those of the master dataset;"
    " begin a new master dataset in another TALLY_HOME"
)
Until = Mapping[str, Mapping[int, int]]
Marks = Mapping[str, Mapping[int, Mark]]
Kept = Mapping[str, Mapping[int, tuple[int, int]]]


@dataclass(frozen=True)
class Held:
    """What the master dataset holds.

    By topic its id, by partition the first offset that it does not hold, and its last record.
    """

    topic_ids: Mapping[str, str]
    until: Until
    marks: Marks = field(default_factory=dict)

    def as_metadata(self) -> str:
        """The text that goes into the Delta commit (userMetadata)."""
        return msgspec.json.encode(
            {"topic_ids": self.topic_ids, "until": self.until, "marks": self.marks}
        ).decode()

    def last_places(self) -> list[Place]:
        """Where in Kafka the last record of each partition lay."""
        return [
            (topic, number, mark.offset)
            for topic, marks in self.marks.items()
            for number, mark in marks.items()
        ]


NOTHING_HELD = Held({}, {})


@dataclass(frozen=True)
class Snapshot:
    """A version of the table and what it holds: both of one reading."""

    version: int
    held: Held


def newest_snapshot(path: Path) -> Snapshot:
    """The table as it is now."""
    while True:
        version = DeltaTable(str(path)).version()
        held = held_by(path, version)
        # delta-rs numbers a history from the version that it finds last: a commit between the two
        # would be taken for another.
        if DeltaTable(str(path)).version() == version:
            return Snapshot(version, held)


def held_by(path: Path, version: int | None = None) -> Held:
    """What the newest append up to a version (None: the newest) says that the table holds.

    Commits without such a note (compaction) are passed over.
    """
    if not DeltaTable.is_deltatable(str(path)):
        return NOTHING_HELD
    # Opened at its newest version: opened at an older one, delta-rs numbers the commits of the
    # history wrongly.
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
    marks = msgspec.convert(kept.get("marks", {}), dict[str, dict[int, Mark]], strict=False)
    return Held(
        kept["topic_ids"],
        {topic: _numbered(offsets) for topic, offsets in kept["until"].items()},
        marks,
    )


def _numbered(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(number): offset for number, offset in offsets.items()}


def kept_offsets(
    settings: Settings, topics: Iterable[str], isolation: str = "read_committed"
) -> dict[str, dict[int, tuple[int, int]]]:
    """By topic and partition the first offset that Kafka still keeps, and the last stable one.

    The last stable offset is the first one not readable yet. With isolation `read_uncommitted` the
    end is that of the partition, open transactions included.
    """
    consumer = kafka_consumer(settings, "master-offsets", {"isolation.level": isolation})
    try:
        return {
            topic: {
                number: consumer.get_watermark_offsets(
                    TopicPartition(topic, number), timeout=TIMEOUT_SECONDS
                )
                for number in (
                    consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions
                )
            }
            for topic in topics
        }
    finally:
        consumer.close()


def starting_offsets(held: Held, ids: Mapping[str, str], kept: Kept) -> dict[str, dict[int, int]]:
    """First offset to append next, by topic and partition.

    Raises DataLoss when Kafka no longer keeps it, or when the topic is another one than the table's
    records came from.
    """
    starting: dict[str, dict[int, int]] = {}
    for topic, partitions in kept.items():
        if held.topic_ids.get(topic, ids[topic]) != ids[topic]:
            raise DataLoss(f"topic {topic} was deleted and created anew: {_BEGIN_ANEW}")
        starting[topic] = {}
        for number, (earliest, end) in partitions.items():
            wanted = held.until.get(topic, {}).get(number, 0)
            if not earliest <= wanted <= end:
                way_out = (
                    f"`tally gaps accept {topic} {number}` notes that for good"
                    if wanted < earliest
                    else _BEGIN_ANEW
                )
                raise DataLoss(
                    f"topic {topic} partition {number}: the master dataset goes on at offset"
                    f" {wanted}, Kafka keeps {earliest} to {end}; records are missing, restore them"
                    f" from a backup of the topic or of the master dataset; {way_out}"
                )
            starting[topic][number] = wanted
    return starting


def refuse_other_log(held: Held, kept: Kept, found: Mapping[Place, Mark | None]) -> None:
    """Nothing if the last record held of each partition is the one in Kafka, or no longer kept.

    Raises DataLoss for a log that was cut and has grown again.
    """
    for topic, number, mark in _all_marks(held):
        earliest, _ = kept[topic][number]
        if mark.offset >= earliest and found[topic, number, mark.offset] != mark:
            raise DataLoss(
                f"topic {topic} partition {number}: the record at offset {mark.offset} is not the"
                " one that the master dataset holds,"
                f" the log was cut and has grown again: {_BEGIN_ANEW}"
            )


def _all_marks(held: Held) -> Iterator[tuple[str, int, Mark]]:
    for topic, marks in held.marks.items():
        yield from ((topic, number, mark) for number, mark in marks.items())
