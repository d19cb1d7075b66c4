"""What a rebuild tells others: conflicts as dead letters, changed windows as restatements, the stores' days, the ledger."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date
from hashlib import sha256
from typing import Any

import msgspec
from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tally.errors import TallyError
from tally.families import Family
from tally.instants import from_millis, instant_text
from tally.partitions import partition_of
from tally.redact import redacted

DEAD_LETTERS, RESTATEMENTS = "dead-letters", "restatements"
_FLUSH_SECONDS = 60.0


@dataclass(frozen=True)
class Restatement:
    """One window whose published rows changed; id = (family, day, earlier and new generation, window)."""

    family: str
    store_id: str
    window_start: str
    day: str
    earlier_generation: int
    generation: int


class Notices:
    """Sends records and waits for every acknowledgement."""

    def __init__(self, producer: Producer, partitions: int) -> None:
        self._producer, self._partitions = producer, partitions
        self._failed: list[KafkaError] = []

    def conflicts(self, family: Family, found: Iterable[Mapping[str, Any]]) -> int:
        """One dead letter for each conflict; its coordinates are its identity, so that a repeat is the same letter."""
        sent = 0
        for record in found:
            value = str(record["value"]).encode()
            self._send(DEAD_LETTERS, record["store_id"], redacted(value), _headers(family, record, value))
            sent += 1
        self._flush(DEAD_LETTERS)
        return sent

    def restate(self, family: Family, changed: Iterable[str], earlier: Mapping[date, int], generation: int) -> None:
        """One record for each changed window, given as store|milliseconds."""
        for window in changed:
            store_id, millis = window.rsplit("|", 1)
            start = from_millis(int(millis))
            day = start.date()
            notice = Restatement(family.name, store_id, instant_text(start), day.isoformat(), earlier[day], generation)
            self._send(RESTATEMENTS, store_id, msgspec.json.encode(notice), [])
        self._flush(RESTATEMENTS)

    def _send(self, topic: str, store_id: str, value: bytes, headers: list[tuple[str, str | bytes | None]]) -> None:
        partition = partition_of(store_id, self._partitions)
        self._producer.produce(topic, value=value, key=store_id, partition=partition, headers=headers, on_delivery=self._delivered)
        self._producer.poll(0)

    def _flush(self, topic: str) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        failed, self._failed = self._failed, []
        if left or failed:
            raise TallyError(f"topic {topic}: {left + len(failed)} records were not sent; look into the broker's log and rebuild again")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)


def _headers(family: Family, record: Mapping[str, Any], value: bytes) -> list[tuple[str, str | bytes | None]]:
    texts = {
        "reason": "conflict", "field": "", "message": f"{record['event_id']} came before with another content; the first by offset counts",
        "topic": family.topic, "partition": str(record["partition"]), "offset": str(record["offset"]), "attempts": "1",
        "first_seen": instant_text(record["committed_at"].astimezone(UTC)), "sha256": sha256(value).hexdigest(),
    }  # fmt: skip
    return [(name, text.encode()) for name, text in texts.items()]


def note_activity(session: Session, family: Family, master: DataFrame) -> None:
    """First and last day of each store: two registers by day number (the earlier first day and the later last day win)."""
    spans = master.groupBy("store_id").agg(F.min("event_date").alias("first"), F.max("event_date").alias("last")).collect()
    for column, sign in (("first", -1), ("last", 1)):
        statement = session.prepare(f"INSERT INTO store_activity (family, store_id, {column}_day) VALUES (?, ?, ?) USING TIMESTAMP ?")
        statement.is_idempotent = True
        rows = [(family.name, span["store_id"], span[column], sign * (span[column] - date(1970, 1, 1)).days) for span in spans]
        execute_concurrent_with_args(session, statement, rows, concurrency=64, raise_on_first_error=True)


def note_ledger(session: Session, family: Family, generation: int, lines: Iterable[Mapping[str, int]]) -> None:
    """The ledger of one generation, a row for each partition. Nothing is erased yet: erased is 0."""
    columns = ("partition", "committed", "counted", "duplicate", "conflict")
    statement = session.prepare(
        f"INSERT INTO batch_ledger (family, generation, {', '.join(columns)}, erased) VALUES (?, ?, {', '.join('?' * len(columns))}, 0)"
    )
    statement.is_idempotent = True
    for line in lines:
        session.execute(statement, [family.name, generation, *(line[name] for name in columns)])
