"""What a rebuild tells others through Kafka.

Records that it does not count as dead letters, changed windows as restatements.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Self

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from batch_layer.views.fates import CONFLICT
from tally.errors import TallyError
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


class Notices:
    """Sends records and waits for every acknowledgement."""

    def __init__(self, producer: Producer, partitions: int, digest_key: bytes) -> None:
        self._producer, self._partitions, self._digest_key = producer, partitions, digest_key
        self._failed: list[KafkaError] = []

    def uncounted(self, family: Family, found: Iterable[Mapping[str, Any]]) -> int:
        """One dead letter for each conflict or unreadable record.

        Its coordinates are its identity, a repeat is the same letter.
        """
        sent = 0
        for record in found:
            value = str(record["value"] or "").encode()
            store_id = record["store_id"]
            partition = (
                record["partition"]
                if store_id is None
                else partition_of(store_id, self._partitions)
            )
            self._send(
                DEAD_LETTERS,
                (store_id, partition),
                redacted(value)[:_MOST_BYTES],
                self._headers(family, record, value),
            )
            sent += 1
        self._flush(DEAD_LETTERS)
        return sent

    def restate(self, changed: Iterable[Restatement]) -> None:
        """One record for each changed window."""
        for one in changed:
            self._send(
                RESTATEMENTS,
                (one.store_id, partition_of(one.store_id, self._partitions)),
                msgspec.json.encode(one),
                [],
            )
        self._flush(RESTATEMENTS)

    def _send(
        self,
        topic: str,
        place: tuple[str | None, int],
        value: bytes,
        headers: list[tuple[str, str | bytes | None]],
    ) -> None:
        key, partition = place
        while True:
            try:
                self._producer.produce(
                    topic,
                    value=value,
                    key=key,
                    partition=partition,
                    headers=headers,
                    on_delivery=self._delivered,
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _flush(self, topic: str) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        failed, self._failed = self._failed, []
        if left or failed:
            raise TallyError(
                f"topic {topic}: {left + len(failed)} records were not sent;"
                " look into the broker's log and rebuild again"
            )

    def _headers(
        self, family: Family, record: Mapping[str, Any], value: bytes
    ) -> list[tuple[str, str | bytes | None]]:
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

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
