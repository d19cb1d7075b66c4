"""What identifies a log: its topic's id, and the last record read of each partition.

Offsets alone do not suffice: a topic that was re-created, or a log that was cut and has grown
again, has the same ones. So position metadata is written beside committed positions, and says
whether reading may resume there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec
from confluent_kafka import TopicCollection

from runtime.connect import UNCOMMITTED, kafka_admin
from runtime.kafka.reader import RecordPlace, first_records
from tally.config.settings import Settings
from tally.errors import StackError

TIMEOUT_SECONDS = 30.0
# 60 bits: they fit into a number of the master's log, and tell two logs apart.
SHA256_DIGITS = 15


# Stored in the master's commits and beside committed positions: after a rename of a field the
# stored ones would not be found.
class RecordFingerprint(msgspec.Struct, frozen=True):
    """The fingerprint of a record of a log: its offset, Kafka timestamp, and digest of its value.

    The timestamp is in milliseconds since 1970 (UTC); sha256 has the first SHA256_DIGITS
    hexadecimal digits.
    """

    offset: int
    timestamp_ms: int
    sha256: str


def fingerprint_record(offset: int, timestamp_ms: int, value: bytes | None) -> RecordFingerprint:
    """The fingerprint of a record; a null value counts as an empty one."""
    digest = sha256(value or b"").hexdigest()[:SHA256_DIGITS]
    return RecordFingerprint(offset, timestamp_ms, digest)


def read_topic_ids(settings: Settings, topics: Iterable[str]) -> dict[str, str]:
    """The id of each topic by its name; a re-created topic has another id.

    Raises KafkaException, or StackError when there is no answer in time.
    """
    named, seconds = TopicCollection(list(topics)), TIMEOUT_SECONDS
    # Named, because the answers fail as soon as their client is collected.
    admin = kafka_admin(settings)
    described = admin.describe_topics(named, request_timeout=seconds)
    try:
        found = {name: answer.result(seconds) for name, answer in described.items()}
        return {name: str(topic.topic_id) for name, topic in found.items()}
    except TimeoutError as error:
        raise StackError(
            f"kafka at {settings.kafka}: no answer about its topics in {seconds:.0f} s"
        ) from error


def read_fingerprints(
    settings: Settings, places: Iterable[RecordPlace]
) -> dict[RecordPlace, RecordFingerprint | None]:
    """The fingerprint of the record at each place as it is in Kafka now; None where there is none.

    Then the record was deleted or cut off, or a transaction's marker lies there. Raises StackError
    when the brokers do not answer in time.
    """
    # Uncommitted records are read too: an open transaction further on must not delay the answer.
    overrides = {**UNCOMMITTED, "auto.offset.reset": "error"}
    found = first_records(settings, places, TIMEOUT_SECONDS, overrides)
    return {place: _fingerprint_at(place, first) for place, first in found.items()}


def _fingerprint_at(place: RecordPlace, first: Any) -> RecordFingerprint | None:
    # Where a marker lies, or a record was cut off, the read returns the next record.
    if first is None or first.offset() != place[2]:
        return None
    return fingerprint_record(place[2], first.timestamp()[1], first.value())


class _OffsetMetadata(msgspec.Struct, frozen=True):
    @property
    def text(self) -> str:
        """The metadata as the text beside the offset."""
        return msgspec.json.encode(self).decode()


class PositionMetadata(_OffsetMetadata, frozen=True):
    """Metadata of a committed position: the topic's id, and the last record read, if any."""

    topic_id: str
    last: RecordFingerprint | None = None

    @classmethod
    def read(cls, metadata: str | None) -> "PositionMetadata | None":
        """Parse an offset's metadata; None if it is of another kind, for example set by hand."""
        try:
            return msgspec.json.decode(metadata or "", type=cls)
        except msgspec.DecodeError:
            return None


@dataclass(frozen=True)
class LogState:
    """The current state of one partition: its topic's id, the first offset kept, and the end.

    `fingerprint` is that of the record at the place of the last one that was read.
    """

    topic_id: str
    earliest: int
    end: int
    fingerprint: RecordFingerprint | None = None


class TopicIds(_OffsetMetadata, frozen=True):
    """Ids of the topics that a group reads, stored beside a position in another topic.

    They are not stored in the topics themselves, whose positions go when a topic is deleted.
    """

    topic_ids: dict[str, str] = {}

    @classmethod
    def read(cls, metadata: str | None) -> "TopicIds":
        """The ids in an offset's metadata; empty if it has none."""
        try:
            return msgspec.json.decode(metadata or "{}", type=cls)
        except msgspec.DecodeError:
            return cls()


def loss_reason(position: int, metadata: PositionMetadata | None, log: LogState) -> str | None:
    """The reason why reading must not resume at the position; None if it may."""
    # The topic's id is compared first: the offsets of another log are meaningless here.
    if metadata is not None and metadata.topic_id != log.topic_id:
        return "the topic was deleted and created again since it was read"
    if log.end < position:
        return f"it was read up to offset {position} and ends at {log.end}: the log was cut"
    if log.earliest > position:
        return f"offsets {position} to {log.earliest - 1} were deleted before they were read"
    # Matching offsets prove nothing: after a power failure a broker assigns the lost ones again.
    if metadata is not None and metadata.last is not None and metadata.last != log.fingerprint:
        return (
            f"the record at offset {metadata.last.offset} is not the one that was read there: the"
            " log was cut, and has grown again"
        )
    return None


def recovery_advice(topic: str, partition: int) -> str:
    """The advice of an error about lost records: how to go on."""
    return (
        f"restore the topic, or `tally gaps accept {topic} {partition}` notes the loss for good and"
        " lets the job go on"
    )
