"""What a query stores with its checkpoint: its start position, and the identity of its topics.

The floor of a start position is computed from the master dataset: it says from which window on a
query without a checkpoint may write (docs/guarantees.md). By the identity it is noticed that a
topic was created again, or was cut and has grown again.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from runtime.kafka.log_identity import read_topic_ids
from runtime.kafka.offsets import TopicOffsets, parse_offsets, parse_partition_keys
from runtime.kafka.reader import RecordPlace, first_records
from runtime.process.files import write_atomically
from runtime.spark.checkpoint import has_begun
from speed_layer.session import TIMEOUT_SECONDS, Driver, RetainedOffsets
from speed_layer.state.records import NO_CRC, PartitionReport
from tally.config.settings import Settings
from tally.errors import DataLoss, UnrecoverableError
from tally.families.family import Family
from tally.time.instants import format_utc

# The first window that the query may write (UTC), by family; None: every window.
Floors: TypeAlias = Mapping[str, datetime | None]


# It lies among Spark's own files in the checkpoint, so restoring or moving the folder includes it.
POSITION_FILE = "tally-handover.json"


@dataclass(frozen=True)
class StartPosition:
    """Starting offset by topic and partition, and the floors of the query's families."""

    offsets: TopicOffsets
    floors: Floors


def load_start_position(checkpoint: Path) -> StartPosition | None:
    """The start position of this checkpoint's query; None if there is none."""
    file = checkpoint / POSITION_FILE
    if not file.is_file():
        return None
    content = json.loads(file.read_text("utf-8"))
    floors = {
        family: datetime.fromisoformat(floor) if floor else None
        for family, floor in content["floors"].items()
    }
    return StartPosition(parse_offsets(content["starting"]), floors)


def store_start_position(checkpoint: Path, position: StartPosition) -> None:
    """Store the start position with the checkpoint, atomically, before the first micro-batch."""
    floors = {
        family: format_utc(floor) if floor else None for family, floor in position.floors.items()
    }
    text = json.dumps({"starting": {**position.offsets}, "floors": floors})
    checkpoint.mkdir(parents=True, exist_ok=True)
    # Durable: a query whose checkpoint has begun and lost its start position refuses to go on.
    write_atomically(checkpoint / POSITION_FILE, text, is_durable=True)


def resolve_start_position(
    driver: Driver, query: str, families: Sequence[Family], earliest: TopicOffsets
) -> StartPosition:
    """The start position that is valid for the query of these topics, once it is stored.

    `earliest` are the first offsets that the topics hold, `families` those whose views the query
    keeps. A topic that is new to a begun query begins at its earliest offset, as in Spark. Raises
    UnrecoverableError when a checkpoint has lost its start position, TallyError when the master
    cannot determine a floor yet.
    """
    checkpoint = driver.settings.checkpoint(query)
    stored, begun = load_start_position(checkpoint), has_begun(checkpoint)
    # Only the stored position has the window from which on this query has seen everything; a floor
    # computed now is that of another beginning.
    if begun and stored is None:
        raise UnrecoverableError(
            f"checkpoint {checkpoint}: {POSITION_FILE} is missing;"
            " restore the whole folder, or move it away to begin again"
        )
    # A position without a micro-batch is not reused: Kafka and the master may have moved on since.
    known = stored if begun and stored else StartPosition({}, {})
    added = {topic: first for topic, first in earliest.items() if topic not in known.offsets}
    if not added:
        return known
    options, partitions = driver.start_options, driver.settings.partitions
    given = {} if begun else {topic: options.find_offsets(topic, partitions) for topic in added}
    starting = {topic: given.get(topic) or first for topic, first in added.items()}
    floors = {
        family.name: options.find_floor(driver, family, starting[family.topic])
        for family in families
        if family.topic in starting
    }
    position = StartPosition({**known.offsets, **starting}, {**known.floors, **floors})
    # Once a micro-batch has run this position is final: Kafka's first offsets move on with its
    # retention, and the floor must not.
    store_start_position(checkpoint, position)
    return position


IDENTITY_FILE = "tally-topic.json"


@dataclass(frozen=True)
class TopicIdentity:
    """A topic's id, and (offset, CRC-32) of the last record read in each partition."""

    topic_id: str
    # A record with a null value is not noted.
    last: Mapping[int, tuple[int, int]]


# The key is the topic.
TopicIdentities = Mapping[str, TopicIdentity]


def load_topic_identities(checkpoint: Path) -> dict[str, TopicIdentity]:
    """The identities beside the checkpoint of a query, by topic; of a new topic there is none."""
    file = checkpoint / IDENTITY_FILE
    content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    found = {}
    for topic, entry in content.items():
        last = parse_partition_keys(entry["last"]).items()
        records = {number: (offset, crc) for number, (offset, crc) in last}
        found[topic] = TopicIdentity(entry["topic_id"], records)
    return found


def store_topic_identities(checkpoint: Path, memories: TopicIdentities) -> None:
    """Store the memories beside the checkpoint, atomically."""
    content = {topic: asdict(remembered) for topic, remembered in memories.items()}
    checkpoint.mkdir(parents=True, exist_ok=True)
    write_atomically(checkpoint / IDENTITY_FILE, json.dumps(content), is_durable=True)


class TopicCheckpoint:
    """Memory of one running query about its topics; it grows with the reports."""

    def __init__(self, checkpoint: Path, memories: TopicIdentities) -> None:
        # Before anything is read: a topic re-created during the first micro-batch is noticed too.
        self._checkpoint, self._identities = checkpoint, dict(memories)
        store_topic_identities(checkpoint, memories)

    def note(self, reports: Iterable[PartitionReport]) -> None:
        """Store the last records that the micro-batch of the reports has read."""
        reported = [report for report in reports if report.crc != NO_CRC]
        for report in reported:
            known = self._identities[report.topic]
            last = {**known.last, report.partition: (report.offset, report.crc)}
            self._identities[report.topic] = replace(known, last=last)
        if reported:
            store_topic_identities(self._checkpoint, self._identities)


def verify_topic_identity(
    settings: Settings, checkpoint: Path, retained: Mapping[str, RetainedOffsets]
) -> TopicCheckpoint:
    """The memory of a query. Raises DataLoss when a topic is not the one that it has read."""
    advice = (
        f"move the checkpoint folder {checkpoint} away: the query then begins again with a floor,"
        " batch serves what lies below"
    )
    ids, known = read_topic_ids(settings, retained), load_topic_identities(checkpoint)
    memories = {topic: TopicIdentity(ids[topic], {}) for topic in retained}
    memories |= {topic: memory for topic, memory in known.items() if topic in retained}
    for topic, memory in memories.items():
        if memory.topic_id != ids[topic]:
            raise DataLoss(
                f"topic {topic}: it was created again, its id is {ids[topic]},"
                f" the query has read {memory.topic_id}; {advice}"
            )
        for partition, (offset, crc) in sorted(memory.last.items()):
            # Retention may have deleted the record: that is no sign of another log.
            if (
                retained[topic].earliest[partition] <= offset
                and _crc_at(settings, (topic, partition, offset)) != crc
            ):
                raise DataLoss(
                    f"topic {topic} partition {partition}: at offset {offset} lies another record"
                    f" than the query has read, the log was cut and has grown again; {advice}"
                )
    return TopicCheckpoint(checkpoint, memories)


def _crc_at(settings: Settings, place: RecordPlace) -> int | None:
    """CRC-32 of the committed record at this very offset; None if there is none."""
    first = first_records(settings, [place], TIMEOUT_SECONDS)[place]
    # Where a transaction marker lies, or nothing any more, the next record is returned.
    # Compared with None: a message without a value is falsy.
    if first is not None and first.offset() == place[2]:
        return zlib.crc32(first.value() or b"")
    return None
