"""What a rebuild tells others through Kafka.

Records that it does not count as dead letters, changed windows as restatements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Self

import msgspec
from confluent_kafka import Producer

from batch_layer.views.fates import CONFLICT
from runtime.dead_letter import (
    MOST_BYTES,
    TOPIC,
    Cause,
    UncountedRecord,
    shown,
    written_letter,
)
from runtime.producer import AwaitedProducer
from tally.families import Family
from tally.instants import instant_text
from tally.partitions import partition_of

RESTATEMENTS = "restatements"
# A record that cannot be read may be larger than the topic takes; headers and key come on top of
# what is kept of it.
MOST_MESSAGE_BYTES = 2 * MOST_BYTES
# Of an identity, so that the sentence about it is told to its end.
_MOST_IDENTITY = 400
_FLUSH_SECONDS = 60.0


@dataclass(frozen=True)
class Restatement:
    """One window whose published rows changed.

    id: family, day, earlier and new generation, store, window; a repeat has the same.
    """

    id: str
    family: str
    store_id: str
    window_start: str
    day: str
    earlier_generation: int
    generation: int

    @classmethod
    def of(
        cls, family: str, store_id: str, window_start: str, earlier: int, generation: int
    ) -> Self:
        """The restatement of a window that begins at an instant_text()."""
        day = window_start[:10]
        identity = f"{family}/{day}/{earlier}/{generation}/{store_id}/{window_start}"
        return cls(identity, family, store_id, window_start, day, earlier, generation)


class Announcements:
    """Sends records and waits for every acknowledgement."""

    def __init__(self, producer: Producer, partitions: int, digest_key: bytes) -> None:
        self._sender = AwaitedProducer(producer, _FLUSH_SECONDS)
        self._partitions, self._digest_key = partitions, digest_key

    def uncounted(self, family: Family, found: Iterable[Mapping[str, Any]]) -> int:
        """How many dead letters were sent, one for each conflict or unreadable record.

        Blocks until all are acknowledged; raises TallyError when one is not. Its coordinates are a
        letter's identity, a repeat is the same letter.
        """
        sent = 0
        for record in found:
            store_id = record["store_id"]
            letter = written_letter(_uncounted(family, record), _cause(record), self._digest_key)
            # What cannot be read has no store: its letter goes by the partition that it came from.
            partition = (
                record["partition"]
                if store_id is None
                else partition_of(store_id, self._partitions)
            )
            self._sender.send(TOPIC, letter.value, letter.key, partition, letter.headers)
            sent += 1
        self._flush(TOPIC)
        return sent

    def restate(self, changed: Iterable[Restatement]) -> None:
        """Block until one record for each changed window is acknowledged; else raise TallyError."""
        for one in changed:
            self._sender.send(
                RESTATEMENTS,
                msgspec.json.encode(one),
                one.store_id,
                partition_of(one.store_id, self._partitions),
            )
        self._flush(RESTATEMENTS)

    def _flush(self, topic: str) -> None:
        self._sender.settle(f"topic {topic}", "look into the broker's log and rebuild again")


def _uncounted(family: Family, record: Mapping[str, Any]) -> UncountedRecord:
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


def _cause(record: Mapping[str, Any]) -> Cause:
    message = (
        f"{shown(str(record['event_id']), _MOST_IDENTITY)} came before with another content;"
        " the first by offset counts"
        if record["fate"] == CONFLICT
        else (
            "the canonical record cannot be read, or a count in it is out of bounds; only the"
            " normaliser may write this topic"
        )
    )
    return Cause(record["fate"], message, instant_text(record["committed_at"].astimezone(UTC)))
