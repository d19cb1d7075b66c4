"""Where the master dataset and Kafka stand.

Identities of topics, first offset not held, offsets kept by the brokers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from deltalake import DeltaTable

from runtime.connect import kafka_consumer
from runtime.marks import Mark
from runtime.offsets import TopicOffsets, offsets_by_topic
from runtime.reading import RecordPlace
from runtime.topics import Bounds, bounds, ends
from tally.errors import DataLoss
from tally.settings import Settings

TIMEOUT_SECONDS = 30.0
_BEGIN_ANEW = (
    "its offsets would repeat those of the master dataset;"
    " begin a new master dataset in another TALLY_HOME"
)
Marks = Mapping[str, Mapping[int, Mark]]
BoundsByTopic = Mapping[str, Mapping[int, Bounds]]


@dataclass(frozen=True)
class HeldOffsets:
    """What the master dataset holds.

    By topic its id, by partition the first offset that it does not hold, and its last record.
    """

    topic_ids: Mapping[str, str]
    until: TopicOffsets
    marks: Marks = field(default_factory=dict)

    def as_metadata(self) -> str:
        """The text that goes into the Delta commit (userMetadata)."""
        # In the commit of the records themselves: no crash can leave one without the other.
        return msgspec.json.encode(
            {"topic_ids": self.topic_ids, "until": self.until, "marks": self.marks}
        ).decode()

    def last_places(self) -> list[RecordPlace]:
        """Where in Kafka the last record of each partition lay."""
        return [
            (topic, number, mark.offset)
            for topic, marks in self.marks.items()
            for number, mark in marks.items()
        ]


NOTHING_HELD = HeldOffsets({}, {})


@dataclass(frozen=True)
class Snapshot:
    """A version of the table and what it holds: both of one reading."""

    version: int
    held: HeldOffsets


def newest_snapshot(path: Path) -> Snapshot:
    """The table as it is now."""
    while True:
        version = DeltaTable(str(path)).version()
        held = held_by(path, version)
        # delta-rs numbers a history from the version that it finds last: a commit between the two
        # would be taken for another.
        if DeltaTable(str(path)).version() == version:
            return Snapshot(version, held)


def held_by(path: Path, version: int | None = None) -> HeldOffsets:
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
                return held_of(note)
    return NOTHING_HELD


def held_of(note: str) -> HeldOffsets:
    """What a Delta commit's note (HeldOffsets.as_metadata()) says that the table holds."""
    kept = json.loads(note)
    marks = msgspec.convert(
        kept.get("marks", {}),
        dict[str, dict[int, Mark]],
        strict=False,
    )
    return HeldOffsets(
        kept["topic_ids"],
        offsets_by_topic(kept["until"]),
        marks,
    )


def kept_offsets(
    settings: Settings, topics: Iterable[str], isolation: str = "read_committed"
) -> dict[str, dict[int, Bounds]]:
    """By topic and partition the first offset that Kafka still keeps, and the last stable one.

    The last stable offset is the first one not readable yet. With isolation `read_uncommitted` the
    end is that of the partition, open transactions included.
    """
    overrides = {"isolation.level": isolation}
    with kafka_consumer(settings, "master-offsets", overrides) as consumer:
        return {topic: bounds(consumer, topic, TIMEOUT_SECONDS) for topic in topics}


def stable_ends(settings: Settings, topics: Iterable[str]) -> TopicOffsets:
    """By topic and partition the first offset that is not readable yet. Raises KafkaException."""
    with kafka_consumer(settings, "master-offsets") as consumer:
        return ends(consumer, topics, TIMEOUT_SECONDS)


def starting_offsets(
    held: HeldOffsets, ids: Mapping[str, str], kept: BoundsByTopic
) -> dict[str, dict[int, int]]:
    """First offset to append next, by topic and partition; 0 where nothing is held.

    Raises DataLoss when Kafka no longer keeps it, or when the topic is another one than the table's
    records came from.
    """
    starting: dict[str, dict[int, int]] = {}
    for topic, partitions in kept.items():
        # A topic made anew begins at 0 again and may have grown beyond the old end: its id tells.
        if held.topic_ids.get(topic, ids[topic]) != ids[topic]:
            raise DataLoss(f"topic {topic} was deleted and created anew: {_BEGIN_ANEW}")
        starting[topic] = {}
        for number, (earliest, end) in partitions.items():
            # 0 where nothing is held, and not the first one kept: that would pass over what
            # retention has taken.
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


def refuse_other_log(
    held: HeldOffsets, kept: BoundsByTopic, found: Mapping[RecordPlace, Mark | None]
) -> None:
    """Raise DataLoss unless the last record held of each partition is the one in Kafka.

    Else the log was cut and has grown again. One that Kafka no longer keeps tells nothing.
    """
    # A single broker answers before its disk has the record; what a loss of power takes with it
    # had offsets that are given out again.
    for topic, number, mark in _all_marks(held):
        earliest, _ = kept[topic][number]
        if mark.offset >= earliest and found[topic, number, mark.offset] != mark:
            raise DataLoss(
                f"topic {topic} partition {number}: the record at offset {mark.offset} is not the"
                " one that the master dataset holds,"
                f" the log was cut and has grown again: {_BEGIN_ANEW}"
            )


def _all_marks(held: HeldOffsets) -> Iterator[tuple[str, int, Mark]]:
    for topic, marks in held.marks.items():
        yield from ((topic, number, mark) for number, mark in marks.items())
