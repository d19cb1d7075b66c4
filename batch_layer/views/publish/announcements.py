"""Messages that a rebuild sends through Kafka.

Records that are not counted become dead letters, changed windows become restatements. Until they
are announced, changed windows lie in an outbox under the token of their run: a crash after the flip
loses no restatement.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self
from zlib import crc32

import msgspec
from cassandra.cluster import Session
from confluent_kafka import Producer

from batch_layer.views.compute.classification import CONFLICT
from batch_layer.views.publish.pointer import PointerTable
from runtime.cassandra.writes import write_rows
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
from tally.time.instants import assume_utc, format_utc

RESTATEMENTS = "restatements"
# An unreadable record may be larger than the topic allows; headers and key come on top of the part
# of it that a dead letter keeps.
MAX_MESSAGE_BYTES = 2 * MAX_BYTES
# An identity is cut to this many characters, so that the sentence about it stays whole.
_MAX_IDENTITY = 400
_FLUSH_SECONDS = 60.0
_BUCKETS = 16
# A run that has taken longer does not publish any more: until then its windows may be announced.
LONGEST_RUN = timedelta(days=2)
INSERT_WINDOW = (
    "INSERT INTO restated_window"
    " (family, generation, bucket, store_id, window_start, earlier_generation)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True)
class Restatement:
    """One window whose published rows changed.

    id: made of family, day, earlier and new generation, store and window; a duplicate has the same
    id.
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
        """Build the restatement of a window whose start is an instant by format_utc()."""
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
        coordinates are the letter's identity, so a duplicate is the same letter.
        """
        sent = 0
        for record in found:
            store_id = record["store_id"]
            letter = encode_letter(
                _to_uncounted_record(family, record), _to_cause(record), self._digest_key
            )
            # An unreadable record has no store: its letter keeps the partition of the record.
            number = record["partition"]
            partition = number if store_id is None else self._partition(store_id)
            self._sender.send(TOPIC, letter.value, letter.key, partition, letter.headers)
            sent += 1
        self._flush(TOPIC)
        return sent

    def send_restatements(self, changed: Iterable[Restatement]) -> None:
        """Send a record for each changed window; raises TallyError unless all are acknowledged."""
        for restatement in changed:
            value, store_id = msgspec.json.encode(restatement), restatement.store_id
            self._sender.send(RESTATEMENTS, value, store_id, self._partition(store_id))
        self._flush(RESTATEMENTS)

    def _partition(self, store_id: str) -> int:
        return partition_number(store_id, self._partitions)

    def _flush(self, topic: str) -> None:
        self._sender.flush(f"topic {topic}", "look into the broker's log and rebuild again")


def _to_uncounted_record(family: Family, record: Mapping[str, Any]) -> UncountedRecord:
    key, value = (
        None if column is None else str(column).encode("utf-8", "backslashreplace")
        for column in (record["store_id"], record["value"])
    )
    place = family.topic, record["partition"], record["offset"]
    return UncountedRecord(*place, key, value or b"")


def _to_cause(record: Mapping[str, Any]) -> Cause:
    message = (
        "the canonical record cannot be read, or a count in it is out of bounds; only the"
        " normaliser may write this topic"
    )
    if record["fate"] == CONFLICT:
        identity = redact_excerpt(str(record["event_id"]), _MAX_IDENTITY)
        message = f"{identity} came before with another content; the first by offset counts"
    return Cause(record["fate"], message, format_utc(record["committed_at"].astimezone(UTC)))


def bucket_number(store_id: str) -> int:
    """The bucket (partition) of restated_window that takes the store's windows."""
    # hash() would not do: the workers that write and the run that reads are different processes.
    return crc32(store_id.encode()) % _BUCKETS


class Outbox:
    """The restatements of one family that are stored and not yet sent."""

    def __init__(self, session: Session, family: Family) -> None:
        self._session, self._family = session, family.name

    def open_run(self, generation: int, opened_at: datetime, days: Collection[date]) -> None:
        """Note, before the first window is stored, that the generation may have some.

        `days`: those that it may publish.
        """
        # Prepared, like every statement with a day: as text the driver writes no date before the
        # year 1000.
        insert = (
            "INSERT INTO restatement_run (family, generation, opened_at, days) VALUES (?, ?, ?, ?)"
        )
        write_rows(self._session, insert, [(self._family, generation, opened_at, {*days})])

    def send(
        self, generation: int, published: Collection[date], announcements: Announcements
    ) -> None:
        """Announce the generation's windows of the days that it has published, then delete all.

        A crash between announces twice.
        """
        announcements.send_restatements(self._windows(generation, published))
        self._delete_windows(generation)

    def send_remaining(
        self, table: PointerTable, announcements: Announcements, now: Callable[[], datetime]
    ) -> None:
        """Announce what earlier runs published; delete windows that can no longer be published.

        The history has all flips.
        """
        select = "SELECT generation, opened_at, days FROM restatement_run WHERE family = %s"
        # All rows are fetched first: they are deleted below, while the driver would still be
        # fetching pages of them.
        for run in list(self._session.execute(select, [self._family])):
            days = {day.date() for day in run.days}
            if published := table.published_days(run.generation, days):
                self.send(run.generation, published, announcements)
            # Until then it may be about to flip, and announces its windows itself.
            elif now() - assume_utc(run.opened_at) > LONGEST_RUN:
                self._delete_windows(run.generation)

    def _windows(self, generation: int, published: Collection[date]) -> Iterator[Restatement]:
        select = (
            "SELECT store_id, window_start, earlier_generation FROM restated_window"
            " WHERE family = %s AND generation = %s AND bucket = %s"
        )
        for bucket in range(_BUCKETS):
            for row in self._session.execute(select, [self._family, generation, bucket]):
                at = assume_utc(row.window_start)
                if at.date() not in published:
                    continue
                start = format_utc(at)
                yield Restatement.for_window(
                    self._family, row.store_id, start, row.earlier_generation, generation
                )

    def _delete_windows(self, generation: int) -> None:
        # Nothing is written there any more: a retried delete, with a later timestamp, hides only
        # windows that are announced.
        delete = "DELETE FROM restated_window WHERE family = ? AND generation = ? AND bucket = ?"
        buckets = [(self._family, generation, bucket) for bucket in range(_BUCKETS)]
        write_rows(self._session, delete, buckets)
        # The run is deleted last: as long as its row exists, the next rebuild returns to its
        # windows.
        delete = "DELETE FROM restatement_run WHERE family = ? AND generation = ?"
        write_rows(self._session, delete, [(self._family, generation)])
