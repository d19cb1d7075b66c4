"""Committed positions of a group, and the check that the log is still the one that was read.

A bookmark lies beside each committed position.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import structlog
from confluent_kafka import KafkaException, TopicPartition

from runtime.bookmarks import Bookmark, Log, TopicIds, way_out, what_is_lost
from runtime.connect import brokers_answer
from runtime.marks import mark, read_marks, topic_ids
from runtime.processor.record import Input
from runtime.topics import Lane, bounds_of, committed_positions
from tally.errors import DataLoss
from tally.settings import Settings

POSITIONS_SECONDS = 30.0

log = structlog.get_logger()


class Bookmarks(Protocol):
    """Positions of a group as the brokers store them."""

    def starts(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The position at which to resume in each partition.

        Raises DataLoss when records that were not read are gone.
        """

    def after(self, last: Mapping[Lane, Input]) -> list[TopicPartition]:
        """The positions to commit once these records are processed.

        The records are the last ones of their partitions.
        """

    def unmoved(self, lanes: Iterable[Lane]) -> list[TopicPartition]:
        """The unchanged positions: a transaction without positions would not be fenced."""

    def brokers_answer(self) -> bool:
        """Whether the brokers answer a new client."""


class KafkaBookmarks:
    """The bookmarks of a consumer's group.

    `anchor` is a topic beside whose position the ids of the group's topics are stored; `hints`:
    topics in which an unread record that is gone is no loss; `again`: topics that are read from
    their beginning where something is gone; `begun`: topics in which a group that has never read
    them begins at the first record left.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: Any,
        anchor: str = "",
        hints: Collection[str] = (),
        again: Collection[str] = (),
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._anchor = anchor
        self._hints, self._again = hints, again
        self.begun: Collection[str] = ()
        self._topic_ids: dict[str, str] = {}
        # Positions that are committed, or will be with the transaction that is under way.
        self._positions: dict[Lane, TopicPartition] = {}

    def starts(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The positions at which to resume: the committed one, 0 without one.

        The first offset in Kafka is used only for hints and topics that may come again. Raises
        DataLoss when other records that were not read are gone.
        """
        committed = self._read_committed(partitions)
        self._topic_ids = (
            topic_ids(self._settings, {at.topic for at in committed}) if committed else {}
        )
        known = self._known_ids()
        bookmarks = {}
        for at in committed:
            # The positions of a deleted topic are deleted too: only the id beside the anchor is
            # left.
            bookmark = Bookmark.read(at.metadata) or _bookmark_of_id(known.get(at.topic))
            bookmarks[at.topic, at.partition] = bookmark
        places = {
            lane: (*lane, bookmark.last.offset)
            for lane, bookmark in bookmarks.items()
            if bookmark and bookmark.last
        }
        found = read_marks(self._settings, places.values())
        starts, begun = [], []
        for at in committed:
            lane = at.topic, at.partition
            bookmark = bookmarks[lane]
            mark_found = found[places[lane]] if lane in places else None
            current = Log(
                self._topic_ids[at.topic],
                *bounds_of(self._consumer, lane, POSITIONS_SECONDS),
                mark_found,
            )
            start = max(0, at.offset)
            metadata = at.metadata
            if at.topic in self.begun and at.offset < 0 and _is_same_log(bookmark, current):
                # Records gone before the group's first start are no loss. The position is stored at
                # once: records that go from now on are a loss, read or not.
                start = current.earliest
                begun.append(_begin_position(lane, start, current.topic_id))
            elif loss := what_is_lost(start, bookmark, current):
                start = self._start_after_loss(
                    TopicPartition(*lane, start), loss, bookmark, current
                )
                metadata = ""
            # A log that is read from its beginning has no last record that was read.
            metadata = metadata or Bookmark(current.topic_id).text
            self._positions[lane] = TopicPartition(*lane, start, metadata=metadata)
            starts.append(TopicPartition(*lane, start))
        self._store_ids({**known, **self._topic_ids}, known, begun)
        return starts

    def _start_after_loss(
        self,
        at: TopicPartition,
        loss: str,
        bookmark: Bookmark | None,
        current: Log,
    ) -> int:
        """The position after the missing records. Raises DataLoss where skipping them is a loss."""
        if at.topic in self._again:
            # It is unknown which records of a cut log were replaced.
            log.warning("read again", topic=at.topic, partition=at.partition, reason=loss)
            return current.earliest
        if at.topic not in self._hints:
            place = f"topic {at.topic} partition {at.partition}"
            raise DataLoss(f"{place}: {loss}; {way_out(at.topic, at.partition)}")
        log.info("hints are gone", topic=at.topic, partition=at.partition, reason=loss)
        # Compaction may delete even the record that was read last; the offsets stay valid.
        is_same = bookmark is None or bookmark.topic_id == current.topic_id
        return (
            at.offset
            if is_same and current.earliest <= at.offset <= current.end
            else current.earliest
        )

    def after(self, last: Mapping[Lane, Input]) -> list[TopicPartition]:
        """The offset after each record, with a bookmark."""
        found = {
            lane: TopicPartition(*lane, record.offset + 1, metadata=self._bookmark(record).text)
            for lane, record in last.items()
        }
        # After a failed transaction all positions are read from the brokers again.
        self._positions |= found
        return [*found.values()]

    def unmoved(self, lanes: Iterable[Lane]) -> list[TopicPartition]:
        """The offset that was committed last, with its bookmark."""
        return [self._positions[lane] for lane in lanes]

    def brokers_answer(self) -> bool:
        """Whether the brokers answer a new client; it uses a separate client."""
        return brokers_answer(self._settings)

    def _bookmark(self, record: Input) -> Bookmark:
        return Bookmark(
            self._topic_ids[record.topic], mark(record.offset, record.timestamp_ms, record.value)
        )

    def _known_ids(self) -> dict[str, str]:
        anchor = self._read_committed([TopicPartition(self._anchor, 0)] if self._anchor else [])
        return TopicIds.read(anchor[0].metadata).topic_ids if anchor else {}

    def _store_ids(
        self,
        ids: dict[str, str],
        known: dict[str, str],
        begun: Sequence[TopicPartition],
    ) -> None:
        # Outside of any transaction, since it is no progress; each assignment checks again.
        if not self._anchor or (ids == known and not begun):
            return
        position = TopicPartition(self._anchor, 0, 0, metadata=TopicIds(ids).text)
        try:
            self._consumer.commit(offsets=[position, *begun], asynchronous=False)
        except KafkaException as error:
            log.warning(
                "topic ids not kept, the next assignment tries again", reason=error.args[0].str()
            )

    def _read_committed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        lanes = [(at.topic, at.partition) for at in partitions]
        return committed_positions(self._consumer, lanes, POSITIONS_SECONDS)


def _is_same_log(bookmark: Bookmark | None, current: Log) -> bool:
    return bookmark is None or bookmark.topic_id == current.topic_id


def _begin_position(lane: Lane, start: int, topic_id: str) -> TopicPartition:
    return TopicPartition(*lane, start, metadata=Bookmark(topic_id).text)


def _bookmark_of_id(topic_id: str | None) -> Bookmark | None:
    return None if topic_id is None else Bookmark(topic_id)
