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
from runtime.producer import AwaitedProducer
from tally.families import Family
from tally.instants import instant_text
from tally.keys import keyed_digest
from tally.partitions import partition_of
from tally.redact import redacted

DEAD_LETTERS, RESTATEMENTS = "dead-letters", "restatements"
# What is kept of a record that cannot be read: it may be larger than the topic takes. Headers and
# key come on top.
_MOST_BYTES = 1_000_000
MOST_MESSAGE_BYTES = 2 * _MOST_BYTES
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
            value = str(record["value"] or "").encode()
            store_id = record["store_id"]
            # What cannot be read has no store: its letter goes by the partition that it came from.
            partition = (
                record["partition"]
                if store_id is None
                else partition_of(store_id, self._partitions)
            )
            self._sender.send(
                DEAD_LETTERS,
                # Blacked out before it is cut: half a card number has no check digit to be known
                # by.
                redacted(value)[:_MOST_BYTES],
                store_id,
                partition,
                self._headers(family, record, value),
            )
            sent += 1
        self._flush(DEAD_LETTERS)
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

    def _headers(
        self, family: Family, record: Mapping[str, Any], value: bytes
    ) -> list[tuple[str, bytes]]:
        is_conflict = record["fate"] == CONFLICT
        message = (
            f"{record['event_id']} came before with another content; the first by offset counts"
            if is_conflict
            else (
                "the canonical record cannot be read, or a count in it is out of bounds; only the"
                " normaliser may write this topic"
            )
        )
        texts = {
            "reason": record["fate"],
            "field": "",
            "message": message,
            "topic": family.topic,
            "partition": str(record["partition"]),
            "offset": str(record["offset"]),
            "attempts": "1",
            "first_seen": instant_text(record["committed_at"].astimezone(UTC)),
            "sha256": keyed_digest(self._digest_key, value),
        }
        return [(name, text.encode()) for name, text in texts.items()]
