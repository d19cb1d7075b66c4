"""Messages that a rebuild sends through Kafka.

Records that are not counted become dead letters, changed windows become restatements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Self

import msgspec
from confluent_kafka import Producer

from batch_layer.views.compute.classification import CONFLICT
from runtime.kafka.producer import BlockingProducer
from runtime.records.dead_letter import (
    MAX_BYTES,
    TOPIC,
    Cause,
    UncountedRecord,
    encode_letter,
    redact_excerpt,
)
from tally.events.identity import partition_number
from tally.families.family import Family
from tally.time.instants import format_utc

RESTATEMENTS = "restatements"
# An unreadable record may be larger than the topic allows; headers and key come on top of the part
# of it that a dead letter keeps.
MAX_MESSAGE_BYTES = 2 * MAX_BYTES
# An identity is cut to this many characters, so that the sentence about it stays whole.
_MAX_IDENTITY = 400
_FLUSH_SECONDS = 60.0


@dataclass(frozen=True)
class Restatement:
    """One window whose published rows changed.

    id: made of family, day, earlier and new generation, store and window; a repeat has the same id.
    """

    id: str
    family: str
    store_id: str
    window_start: str
    day: str
    earlier_generation: int
    generation: int

    @classmethod
    def for_window(
        cls, family: str, store_id: str, window_start: str, earlier: int, generation: int
    ) -> Self:
        """Build the restatement of a window whose start is an instant_text()."""
        day = window_start[:10]
        identity = f"{family}/{day}/{earlier}/{generation}/{store_id}/{window_start}"
        return cls(identity, family, store_id, window_start, day, earlier, generation)


class Announcements:
    """Sends records and waits for every acknowledgement."""

    def __init__(self, producer: Producer, partitions: int, digest_key: bytes) -> None:
        self._sender = BlockingProducer(producer, _FLUSH_SECONDS)
        self._partitions, self._digest_key = partitions, digest_key

    def send_dead_letters(self, family: Family, found: Iterable[Mapping[str, Any]]) -> int:
        """Send one dead letter for each conflict or unreadable record; return how many were sent.

        Blocks until all are acknowledged; raises TallyError when one is not. The record's
        coordinates are the letter's identity, so a repeat is the same letter.
        """
        sent = 0
        for record in found:
            store_id = record["store_id"]
            letter = encode_letter(
                _to_uncounted_record(family, record), _to_cause(record), self._digest_key
            )
            # An unreadable record has no store: its letter keeps the partition of the record.
            partition = (
                record["partition"]
                if store_id is None
                else partition_number(store_id, self._partitions)
            )
            self._sender.send(TOPIC, letter.value, letter.key, partition, letter.headers)
            sent += 1
        self._flush(TOPIC)
        return sent

    def send_restatements(self, changed: Iterable[Restatement]) -> None:
        """Send one record for each changed window and block until all are acknowledged.

        Raises TallyError when one is not.
        """
        for restatement in changed:
            self._sender.send(
                RESTATEMENTS,
                msgspec.json.encode(restatement),
                restatement.store_id,
                partition_number(restatement.store_id, self._partitions),
            )
        self._flush(RESTATEMENTS)

    def _flush(self, topic: str) -> None:
        self._sender.flush(f"topic {topic}", "look into the broker's log and rebuild again")


def _to_uncounted_record(family: Family, record: Mapping[str, Any]) -> UncountedRecord:
    columns = record["store_id"], record["value"]
    key, value = (column and str(column) for column in columns)
    return UncountedRecord(
        family.topic,
        record["partition"],
        record["offset"],
        None if key is None else _bytes(key),
        _bytes(value or ""),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _to_cause(record: Mapping[str, Any]) -> Cause:
    message = (
        f"{redact_excerpt(str(record['event_id']), _MAX_IDENTITY)} came before with another"
        " content; the first by offset counts"
        if record["fate"] == CONFLICT
        else (
            "the canonical record cannot be read, or a count in it is out of bounds; only the"
            " normaliser may write this topic"
        )
    )
    return Cause(record["fate"], message, format_utc(record["committed_at"].astimezone(UTC)))
