"""Positions of the master dataset and of Kafka: ids of topics, offsets held, offsets kept."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from deltalake import DeltaTable

from runtime.connect import kafka_consumer
from runtime.kafka.log_identity import RecordFingerprint
from runtime.kafka.offsets import TopicOffsets, parse_offsets
from runtime.kafka.reader import RecordPlace
from runtime.kafka.topics import Bounds, read_ends, read_topic_bounds
from tally.config.settings import Settings
from tally.errors import DataLoss

TIMEOUT_SECONDS = 30.0
_BEGIN_NEW_MASTER = (
    "its offsets would repeat those of the master dataset;"
    " begin a new master dataset in another TALLY_HOME"
)
BoundsByTopic = Mapping[str, Mapping[int, Bounds]]


@dataclass(frozen=True)
class MasterExtent:
    """The id of each topic; the first offset not held and last record of each partition."""

    topic_ids: Mapping[str, str]
    until: TopicOffsets
    fingerprints: Mapping[str, Mapping[int, RecordFingerprint]] = field(default_factory=dict)

    def to_metadata(self) -> str:
        """The text that goes into the Delta commit (userMetadata)."""
        # It is in the commit of the records themselves: no crash can leave one without the other.
        note = {"topic_ids": self.topic_ids, "until": self.until, "marks": self.fingerprints}
        return msgspec.json.encode(note).decode()

    def last_fingerprints(self) -> Iterator[tuple[str, int, RecordFingerprint]]:
        """The place (topic, partition) and the fingerprint of each partition's last record."""
        for topic, by_partition in self.fingerprints.items():
            for number, last in by_partition.items():
                yield topic, number, last

    def last_record_places(self) -> list[RecordPlace]:
        """The place in Kafka (topic, partition, offset) of each partition's last record."""
        return [(topic, number, last.offset) for topic, number, last in self.last_fingerprints()]


EMPTY_EXTENT = MasterExtent({}, {})


def offset_at(offsets: TopicOffsets, topic: str, partition: int) -> int:
    """The offset of the partition; 0 if it has none."""
    return offsets.get(topic, {}).get(partition, 0)


@dataclass(frozen=True)
class Snapshot:
    """A version of the table and the offsets that it holds, from one consistent read."""

    version: int
    extent: MasterExtent


def newest_snapshot(path: Path) -> Snapshot:
    """The table as it is now."""
    while True:
        version = DeltaTable(str(path)).version()
        extent = read_extent(path, version)
        # delta-rs numbers a history from the version that it finds last: after a commit between
        # the two reads the version numbers would be wrong.
        if DeltaTable(str(path)).version() == version:
            return Snapshot(version, extent)


def read_extent(path: Path, version: int | None = None) -> MasterExtent:
    """The extent that the newest append up to a version (None: the newest) has noted.

    Commits without such a note (compaction) are skipped.
    """
    if not DeltaTable.is_deltatable(str(path)):
        return EMPTY_EXTENT
    # The table is opened at its newest version: at an older one delta-rs numbers the commits of
    # the history wrongly.
    table = DeltaTable(str(path))
    newest = table.version() if version is None else version
    # The newest commit nearly always has the note, so the search widens step by step.
    for limit in (1, 100, None):
        for commit in table.history(limit):
            note = commit.get("userMetadata")
            if note and commit["version"] <= newest:
                return parse_extent(note)
    return EMPTY_EXTENT


def parse_extent(note: str) -> MasterExtent:
    """The extent stated by a Delta commit's note (MasterExtent.to_metadata())."""
    content = json.loads(note)
    fingerprints = msgspec.convert(
        content.get("marks", {}), dict[str, dict[int, RecordFingerprint]], strict=False
    )
    return MasterExtent(content["topic_ids"], parse_offsets(content["until"]), fingerprints)


def read_bounds_by_topic(
    settings: Settings, topics: Iterable[str], isolation: str = "read_committed"
) -> dict[str, dict[int, Bounds]]:
    """The first offset that Kafka still keeps and the last stable one, by topic and partition.

    The last stable offset is the first one not readable yet. With isolation `read_uncommitted` the
    end is that of the partition, open transactions included.
    """
    overrides = {"isolation.level": isolation}
    with kafka_consumer(settings, "master-offsets", overrides) as consumer:
        return {topic: read_topic_bounds(consumer, topic, TIMEOUT_SECONDS) for topic in topics}


def stable_ends(settings: Settings, topics: Iterable[str]) -> TopicOffsets:
    """The first offset not readable yet, by topic and partition. Raises KafkaException."""
    with kafka_consumer(settings, "master-offsets") as consumer:
        return read_ends(consumer, topics, TIMEOUT_SECONDS)


def starting_offsets(
    extent: MasterExtent, ids: Mapping[str, str], retained: BoundsByTopic
) -> dict[str, dict[int, int]]:
    """The offset to append next, by topic and partition; 0 where nothing is held.

    Raises DataLoss when Kafka no longer keeps it, or when the topic is not the one that the table's
    records came from.
    """
    starting: dict[str, dict[int, int]] = {}
    for topic, partitions in retained.items():
        # A re-created topic begins at 0 again and may have grown beyond the old end: only its id
        # shows the difference.
        if extent.topic_ids.get(topic, ids[topic]) != ids[topic]:
            raise DataLoss(f"topic {topic} was deleted and created again: {_BEGIN_NEW_MASTER}")
        starting[topic] = {}
        for number, (earliest, end) in partitions.items():
            # 0 where nothing is held, and not the first offset kept: that would silently skip
            # records that retention has deleted.
            offset = offset_at(extent.until, topic, number)
            if not earliest <= offset <= end:
                way_out = (
                    f"`tally gaps accept {topic} {number}` notes that for good"
                    if offset < earliest
                    else _BEGIN_NEW_MASTER
                )
                raise DataLoss(
                    f"topic {topic} partition {number}: the master dataset goes on at offset"
                    f" {offset}, Kafka keeps {earliest} to {end}; records are missing, restore them"
                    f" from a backup of the topic or of the master dataset; {way_out}"
                )
            starting[topic][number] = offset
    return starting


def refuse_other_log(
    extent: MasterExtent,
    retained: BoundsByTopic,
    found: Mapping[RecordPlace, RecordFingerprint | None],
) -> None:
    """Raise DataLoss unless the last record held of each partition is the one in Kafka.

    A difference means that the log was cut and has grown again. A record that Kafka no longer keeps
    is not compared.
    """
    # A single broker acknowledges before its disk has the record; the offsets of records lost in
    # a power failure are assigned again.
    for topic, number, last in extent.last_fingerprints():
        earliest, _ = retained[topic][number]
        place = topic, number, last.offset
        if last.offset >= earliest and found[place] != last:
            raise DataLoss(
                f"topic {topic} partition {number}: the record at offset {last.offset} is not the"
                " one that the master dataset holds,"
                f" the log was cut and has grown again: {_BEGIN_NEW_MASTER}"
            )
