"""Memory of a query about its topics.

It suffices to notice that a topic was re-created, or was cut and has grown again.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtime.kafka.log_identity import read_topic_ids
from runtime.kafka.offsets import parse_partition_keys
from runtime.kafka.reader import RecordPlace, first_records
from runtime.process.files import write_atomically
from speed_layer.input.source import TIMEOUT_SECONDS, RetainedOffsets
from speed_layer.state.partition_reports import NO_CRC, PartitionReport
from tally.config.settings import Settings
from tally.errors import DataLoss

FILE = "tally-topic.json"
LastRecord = tuple[int, int]


@dataclass(frozen=True)
class TopicIdentity:
    """A topic's id, and (offset, CRC-32) of the last record read in each partition.

    A record with a null value is not noted.
    """

    topic_id: str
    last: Mapping[int, LastRecord]


# The key is the topic.
TopicIdentities = Mapping[str, TopicIdentity]


def load_topic_identities(checkpoint: Path) -> dict[str, TopicIdentity]:
    """The memory beside the checkpoint of a query of the topics, by topic.

    A topic that is new to the query is absent.
    """
    file = checkpoint / FILE
    content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return {topic: _parse_topic_identity(entry) for topic, entry in content.items()}


def _parse_topic_identity(content: Mapping[str, Any]) -> TopicIdentity:
    topic_id, last = content["topic_id"], parse_partition_keys(content["last"])
    last_records = {number: (offset, crc) for number, (offset, crc) in last.items()}
    return TopicIdentity(topic_id, last_records)


def store_topic_identities(checkpoint: Path, memories: TopicIdentities) -> None:
    """Store the memories beside the checkpoint, atomically."""
    content = {
        topic: {
            "topic_id": remembered.topic_id,
            "last": {number: [*record] for number, record in remembered.last.items()},
        }
        for topic, remembered in memories.items()
    }
    checkpoint.mkdir(parents=True, exist_ok=True)
    write_atomically(checkpoint / FILE, json.dumps(content), is_durable=True)


class TopicCheckpoint:
    """Memory of one running query about its topics; it grows with the reports."""

    def __init__(self, checkpoint: Path, memories: TopicIdentities) -> None:
        # Stored before anything is read: a topic that is re-created before the first micro-batch
        # has ended is noticed too.
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
    """The memory of a query, once it is checked against the records that the topics hold.

    Raises DataLoss when a topic is not the one that the query has read.
    """
    ids, known = read_topic_ids(settings, retained), load_topic_identities(checkpoint)
    memories = {
        topic: known.get(
            topic,
            TopicIdentity(ids[topic], {}),
        )
        for topic in retained
    }
    for topic, memory in memories.items():
        if memory.topic_id != ids[topic]:
            raise DataLoss(
                f"topic {topic}: it was created again, its id is {ids[topic]},"
                f" the query has read {memory.topic_id}; {_RECOVERY_ADVICE.format(checkpoint)}"
            )
        for partition, (offset, crc) in sorted(memory.last.items()):
            # Retention may have deleted the record: that is no sign of another log.
            if (
                retained[topic].earliest[partition] <= offset
                and _crc_at(settings, (topic, partition, offset)) != crc
            ):
                raise DataLoss(
                    f"topic {topic} partition {partition}: at offset {offset} lies another record"
                    " than the query has read, the log was cut and has grown again;"
                    f" {_RECOVERY_ADVICE.format(checkpoint)}"
                )
    return TopicCheckpoint(checkpoint, memories)


_RECOVERY_ADVICE = (
    "move the checkpoint folder {} away: the query then begins again with a floor,"
    " batch serves what lies below"
)


def _crc_at(settings: Settings, place: RecordPlace) -> int | None:
    """CRC-32 of the committed record at this very offset; None if there is none."""
    first = first_records(settings, [place], TIMEOUT_SECONDS)[place]
    # Where a transaction marker lies, or nothing any more, the next record is returned.
    # Compared with None: a message without a value is falsy.
    if first is not None and first.offset() == place[2]:
        return zlib.crc32(first.value() or b"")
    return None
