"""Where to read on, and whether the log is still the one that was read.

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
    """Positions of a group, as they are kept by the brokers."""

    def starts(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Where to read on in each partition.

        Raises DataLoss when records that were not read are gone.
        """

    def after(self, last: Mapping[Lane, Input]) -> list[TopicPartition]:
        """The positions to commit once these records are processed.

        The records are the last ones of their partitions.
        """

    def unmoved(self, lanes: Iterable[Lane]) -> list[TopicPartition]:
        """The positions as they are: a transaction without any would not be fenced."""

    def brokers_answer(self) -> bool:
        """Whether the brokers answer somebody who has just come."""


class KafkaBookmarks:
    """The bookmarks of a consumer's group.

    `anchor` is a topic beside whose position the ids of those that it reads are kept; `hints`:
    topics of which nothing is lost with a record that was not read; `again`: topics that are read
    from their beginning where something is gone; `begun`: topics that a group which has never read
    them begins with what is left of them.
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
        # As they are committed, or will be with the transaction that is under way.
        self._positions: dict[Lane, TopicPartition] = {}

    def starts(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Where to read on: the committed position, 0 without one.

        Never where Kafka happens to begin, but for hints and what may come again. Raises DataLoss
        when other records that were not read are gone.
        """
        committed = self._committed(partitions)
        self._topic_ids = (
            topic_ids(self._settings, {at.topic for at in committed}) if committed else {}
        )
        known = self._known_ids()
        bookmarks = {}
        for at in committed:
            # With a deleted topic its positions go too: what is left of it is the id beside the
            # anchor.
            bookmark = Bookmark.read(at.metadata) or _unread(known.get(at.topic))
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
            kept = Log(
                self._topic_ids[at.topic],
                *bounds_of(self._consumer, lane, POSITIONS_SECONDS),
                mark_found,
            )
            start = max(0, at.offset)
            metadata = at.metadata
            if at.topic in self.begun and at.offset < 0 and _is_of(bookmark, kept):
                # What was gone before anybody came is nobody's loss. Kept at once: what is gone by
                # the next time is one, read or not.
                start = kept.earliest
                begun.append(_begin_of(lane, start, kept.topic_id))
            elif loss := what_is_lost(start, bookmark, kept):
                start = self._beyond(TopicPartition(*lane, start), loss, bookmark, kept)
                metadata = ""
            # Of a log that is read anew there is no record that was read last.
            metadata = metadata or Bookmark(kept.topic_id).text
            self._positions[lane] = TopicPartition(*lane, start, metadata=metadata)
            starts.append(TopicPartition(*lane, start))
        self._keep_ids({**known, **self._topic_ids}, known, begun)
        return starts

    def _beyond(
        self,
        at: TopicPartition,
        loss: str,
        bookmark: Bookmark | None,
        kept: Log,
    ) -> int:
        """Where to read on without what is gone. Raises DataLoss where something is lost by it."""
        if at.topic in self._again:
            # Of a log that was cut nobody knows which of its records are others now.
            log.warning("read again", topic=at.topic, partition=at.partition, reason=loss)
            return kept.earliest
        if at.topic not in self._hints:
            place = f"topic {at.topic} partition {at.partition}"
            raise DataLoss(f"{place}: {loss}; {way_out(at.topic, at.partition)}")
        log.info("hints are gone", topic=at.topic, partition=at.partition, reason=loss)
        # Compaction takes the very record that was read last; the offsets are those of this log.
        is_same = bookmark is None or bookmark.topic_id == kept.topic_id
        return at.offset if is_same and kept.earliest <= at.offset <= kept.end else kept.earliest

    def after(self, last: Mapping[Lane, Input]) -> list[TopicPartition]:
        """The offset behind each record, with a bookmark."""
        found = {
            lane: TopicPartition(*lane, record.offset + 1, metadata=self._bookmark(record).text)
            for lane, record in last.items()
        }
        # Where a transaction fails, all positions are read from the brokers again.
        self._positions |= found
        return [*found.values()]

    def unmoved(self, lanes: Iterable[Lane]) -> list[TopicPartition]:
        """The offset that was committed last, with its bookmark."""
        return [self._positions[lane] for lane in lanes]

    def brokers_answer(self) -> bool:
        """Asked by a client of its own."""
        return brokers_answer(self._settings)

    def _bookmark(self, record: Input) -> Bookmark:
        return Bookmark(
            self._topic_ids[record.topic], mark(record.offset, record.timestamp_ms, record.value)
        )

    def _known_ids(self) -> dict[str, str]:
        anchor = self._committed([TopicPartition(self._anchor, 0)] if self._anchor else [])
        return TopicIds.read(anchor[0].metadata).topic_ids if anchor else {}

    def _keep_ids(
        self,
        ids: dict[str, str],
        known: dict[str, str],
        begun: Sequence[TopicPartition],
    ) -> None:
        # Outside of any transaction, since it is no progress; each assignment looks again.
        if not self._anchor or (ids == known and not begun):
            return
        kept = TopicPartition(self._anchor, 0, 0, metadata=TopicIds(ids).text)
        try:
            self._consumer.commit(offsets=[kept, *begun], asynchronous=False)
        except KafkaException as error:
            log.warning(
                "topic ids not kept, the next assignment tries again", reason=error.args[0].str()
            )

    def _committed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        lanes = [(at.topic, at.partition) for at in partitions]
        return committed_positions(self._consumer, lanes, POSITIONS_SECONDS)


def _is_of(bookmark: Bookmark | None, kept: Log) -> bool:
    return bookmark is None or bookmark.topic_id == kept.topic_id


def _begin_of(lane: Lane, start: int, topic_id: str) -> TopicPartition:
    return TopicPartition(*lane, start, metadata=Bookmark(topic_id).text)


def _unread(topic_id: str | None) -> Bookmark | None:
    return None if topic_id is None else Bookmark(topic_id)
