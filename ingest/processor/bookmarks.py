"""Where to read on, and whether the log is still the one that was read: a bookmark lies beside each committed position."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from confluent_kafka import TopicPartition

from ingest.processor.record import Input
from runtime.marks import Mark, mark, read_marks, topic_ids
from tally.errors import DataLoss, TallyError
from tally.settings import Settings

POSITIONS_SECONDS = 30.0
Lane = tuple[str, int]


class Bookmark(msgspec.Struct, frozen=True):
    """What is kept beside a committed position: the topic's id, and the last record that was read."""

    topic_id: str
    last: Mark

    @classmethod
    def read(cls, metadata: str | None) -> "Bookmark | None":
        """The bookmark in an offset's metadata; None if it is not one (set by hand, or before there were any)."""
        try:
            return msgspec.json.decode(metadata or "", type=cls)
        except msgspec.DecodeError:
            return None

    @property
    def text(self) -> str:
        """As it is kept in the offset's metadata."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class Log:
    """One partition as it is in Kafka now: its topic's id, first offset kept, end, and the record at the bookmark's place."""

    topic_id: str
    earliest: int
    end: int
    found: Mark | None = None


class Bookmarks(Protocol):
    """Positions of a group, as they are kept by the brokers."""

    def starts(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Where to read on in each partition. Raises DataLoss when records that were not read are gone."""

    def after(self, last: Mapping[Lane, Input]) -> list[TopicPartition]:
        """The positions to commit once these records, the last ones of their partitions, are processed."""


class KafkaBookmarks:
    """The bookmarks of a consumer's group."""

    def __init__(self, settings: Settings, consumer: Any) -> None:
        self._settings = settings
        self._consumer = consumer
        self._topic_ids: dict[str, str] = {}

    def starts(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Where to read on: the committed position, 0 without one; never where Kafka happens to begin."""
        committed = self._committed(partitions)
        self._topic_ids = topic_ids(self._settings, {at.topic for at in committed}) if committed else {}
        books = {(at.topic, at.partition): Bookmark.read(at.metadata) for at in committed}
        found = read_marks(self._settings, [(*lane, book.last.offset) for lane, book in books.items() if book])
        for at in committed:
            lane = at.topic, at.partition
            book = books[lane]
            earliest, end = self._consumer.get_watermark_offsets(TopicPartition(*lane), timeout=POSITIONS_SECONDS)
            log = Log(self._topic_ids[at.topic], earliest, end, found[*lane, book.last.offset] if book else None)
            if loss := what_is_lost(max(0, at.offset), book, log):
                raise DataLoss(f"topic {at.topic} partition {at.partition}: {loss}; {way_out(lane)}")
        return [TopicPartition(at.topic, at.partition, max(0, at.offset)) for at in committed]

    def after(self, last: Mapping[Lane, Input]) -> list[TopicPartition]:
        """The offset behind each record, with a bookmark."""
        return [TopicPartition(*lane, record.offset + 1, metadata=self._bookmark(record).text) for lane, record in last.items()]

    def _bookmark(self, record: Input) -> Bookmark:
        return Bookmark(self._topic_ids[record.topic], mark(record.offset, record.timestamp_ms, record.value))

    def _committed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        asked = [TopicPartition(at.topic, at.partition) for at in partitions]
        committed: list[TopicPartition] = self._consumer.committed(asked, POSITIONS_SECONDS) if asked else []
        if unknown := [at for at in committed if at.error is not None]:
            place = f"topic {unknown[0].topic}, partition {unknown[0].partition}"
            raise TallyError(f"{place}: no committed position ({unknown[0].error}); start the process again")
        return committed


def what_is_lost(position: int, book: Bookmark | None, log: Log) -> str | None:
    """What is wrong with reading on at the position, None if nothing is."""
    if book is not None and book.topic_id != log.topic_id:
        return f"the topic was deleted and created anew since it was read up to offset {position}"
    if log.end < position:
        return f"it was read up to offset {position} and ends at {log.end}: the log was cut"
    if log.earliest > position:
        return f"offsets {position} to {log.earliest - 1} were deleted before they were read"
    if book is not None and book.last != log.found:
        return f"the record at offset {book.last.offset} is not the one that was read there: the log was cut, and has grown again"
    return None


def way_out(lane: Lane) -> str:
    """What to do about it."""
    return f"restore the topic, or `tally gaps accept {lane[0]} {lane[1]}` notes the loss for good and lets the job go on"
