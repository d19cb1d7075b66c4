"""Marks that identify a log: its topic's id, and the last record read of each partition.

Offsets alone do not suffice: a topic that was re-created, or a log that was cut and has grown
again, has the same ones.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec
from confluent_kafka import Message, TopicCollection

from runtime.connect import kafka_admin
from runtime.kafka.reader import RecordPlace, first_records
from tally.config.settings import Settings
from tally.errors import StackError

TIMEOUT_SECONDS = 30.0


# Stored in the master's commits and beside committed positions: after a rename of a field the
# stored ones would not be found.
class RecordFingerprint(msgspec.Struct, frozen=True):
    """The mark of one record of a log: its offset, its Kafka timestamp, SHA-256 of its value.

    The timestamp is in milliseconds since 1970 (UTC).
    """

    offset: int
    timestamp_ms: int
    sha256: str


def fingerprint_record(offset: int, timestamp_ms: int, value: bytes | None) -> RecordFingerprint:
    """The mark of a record; a null value counts as an empty one."""
    return RecordFingerprint(offset, timestamp_ms, sha256(value or b"").hexdigest())


def read_topic_ids(settings: Settings, topics: Iterable[str]) -> dict[str, str]:
    """The id of each topic by its name; a re-created topic has another id.

    Raises KafkaException, or StackError when there is no answer in time.
    """
    admin = kafka_admin(settings)
    described = admin.describe_topics(
        TopicCollection(list(topics)), request_timeout=TIMEOUT_SECONDS
    )
    try:
        return {
            name: str(found.result(TIMEOUT_SECONDS).topic_id) for name, found in described.items()
        }
    except TimeoutError as error:
        raise StackError(
            f"kafka at {settings.kafka}: no answer about its topics in {TIMEOUT_SECONDS:.0f} s"
        ) from error


def read_fingerprints(
    settings: Settings, places: Iterable[RecordPlace]
) -> dict[RecordPlace, RecordFingerprint | None]:
    """The mark of the record at each place as it is in Kafka now; None where there is none.

    Then the record was deleted or cut off, or a transaction's marker lies there. Raises StackError
    when the brokers do not answer in time.
    """
    # Uncommitted records are read too: an open transaction further on must not delay the answer.
    overrides = {"isolation.level": "read_uncommitted", "auto.offset.reset": "error"}
    found = first_records(settings, places, TIMEOUT_SECONDS, overrides)
    return {place: _fingerprint_at(place, first) for place, first in found.items()}


def _fingerprint_at(place: RecordPlace, first: Message | None) -> RecordFingerprint | None:
    # Where a marker lies, or a record was cut off, the read returns the next record.
    if first is None or first.offset() != place[2]:
        return None
    return fingerprint_record(
        place[2],
        first.timestamp()[1],
        _bytes(first.value()),
    )


def _bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else None
