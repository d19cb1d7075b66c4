"""Committed positions of a group, and the check that the log is still the one that was read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import structlog
from confluent_kafka import KafkaException, TopicPartition

from runtime.connect import brokers_answer
from runtime.kafka.log_identity import (
    LogState,
    PositionMetadata,
    TopicIds,
    fingerprint_record,
    loss_reason,
    read_fingerprints,
    read_topic_ids,
    recovery_advice,
)
from runtime.kafka.topics import PartitionId, read_committed_positions, read_partition_bounds
from runtime.processor.step import Input
from tally.config.settings import Settings
from tally.errors import DataLoss

POSITIONS_SECONDS = 30.0

log = structlog.get_logger()


class GroupPositions(Protocol):
    """Positions of a group as the brokers store them."""

    def start_positions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The position at which to resume in each partition.

        Raises DataLoss when records that were not read are gone.
        """

    def positions_after(self, last: Mapping[PartitionId, Input]) -> list[TopicPartition]:
        """The positions to commit once these last records of their partitions are processed."""

    def current_positions(self, partition_ids: Iterable[PartitionId]) -> list[TopicPartition]:
        """The unchanged positions: a transaction without positions would not be fenced."""

    def brokers_answer(self) -> bool:
        """Whether the brokers answer a new client."""


class KafkaGroupPositions:
    """The committed positions of a consumer's group, with their metadata.

    `anchor` is a topic beside whose position the ids of the group's topics are stored; `hints`:
    topics in which an unread record that is gone is no loss; `again`: topics that are read from
    their beginning where something is gone; `earliest_topics`: topics in which a group that has
    never read them begins at the first record left.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: Any,
        anchor: str = "",
        hints: Collection[str] = (),
        again: Collection[str] = (),
    ) -> None:
        self._settings, self._consumer, self._anchor = settings, consumer, anchor
        self._hint_topics, self._reread_topics = hints, again
        self.earliest_topics: Collection[str] = ()
        self._topic_ids: dict[str, str] = {}
        # Positions that are committed, or will be with the transaction that is under way.
        self._positions: dict[PartitionId, TopicPartition] = {}

    def start_positions(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """The positions at which to resume: the committed one, 0 without one.

        The first offset in Kafka is used only for hints and topics that may come again. Raises
        DataLoss when other records that were not read are gone.
        """
        committed = self._read_committed(partitions)
        topics = {at.topic for at in committed}
        self._topic_ids = read_topic_ids(self._settings, topics) if topics else {}
        known = self._read_stored_ids()
        metadata_by_partition = {}
        for at in committed:
            metadata = PositionMetadata.read(at.metadata)
            # The positions of a deleted topic are deleted too: only the id beside the anchor is
            # left.
            if metadata is None and at.topic in known:
                metadata = PositionMetadata(known[at.topic])
            metadata_by_partition[at.topic, at.partition] = metadata
        places = {
            partition_id: (*partition_id, metadata.last.offset)
            for partition_id, metadata in metadata_by_partition.items()
            if metadata and metadata.last
        }
        found = read_fingerprints(self._settings, places.values())
        starts, begun = [], []
        for at in committed:
            partition_id = at.topic, at.partition
            metadata = metadata_by_partition[partition_id]
            fingerprint = found[places[partition_id]] if partition_id in places else None
            current = LogState(
                self._topic_ids[at.topic],
                *read_partition_bounds(self._consumer, partition_id, POSITIONS_SECONDS),
                fingerprint,
            )
            start, text = max(0, at.offset), at.metadata
            is_first = at.topic in self.earliest_topics and at.offset < 0
            if is_first and _is_same_log(metadata, current):
                # Records gone before the group's first start are no loss. The position is stored at
                # once: records that go from now on are a loss, read or not.
                start = current.earliest
                own_text = PositionMetadata(current.topic_id).text
                begun.append(TopicPartition(*partition_id, start, metadata=own_text))
            elif loss := loss_reason(start, metadata, current):
                known_start = TopicPartition(*partition_id, start)
                start, text = self._start_after_loss(known_start, loss, metadata, current), ""
            # A log that is read from its beginning has no last record that was read.
            text = text or PositionMetadata(current.topic_id).text
            self._positions[partition_id] = TopicPartition(*partition_id, start, metadata=text)
            starts.append(TopicPartition(*partition_id, start))
        self._store_ids({**known, **self._topic_ids}, known, begun)
        return starts

    def _start_after_loss(
        self,
        at: TopicPartition,
        loss: str,
        metadata: PositionMetadata | None,
        current: LogState,
    ) -> int:
        """The position after the missing records. Raises DataLoss where skipping them is a loss."""
        if at.topic in self._reread_topics:
            # It is unknown which records of a cut log were replaced.
            log.warning("read again", topic=at.topic, partition=at.partition, reason=loss)
            return current.earliest
        if at.topic not in self._hint_topics:
            place = f"topic {at.topic} partition {at.partition}"
            raise DataLoss(f"{place}: {loss}; {recovery_advice(at.topic, at.partition)}")
        log.info("hints are gone", topic=at.topic, partition=at.partition, reason=loss)
        # Compaction may delete even the record that was read last; the offsets stay valid.
        is_kept = current.earliest <= at.offset <= current.end
        return at.offset if is_kept and _is_same_log(metadata, current) else current.earliest

    def positions_after(self, last: Mapping[PartitionId, Input]) -> list[TopicPartition]:
        """The offset after each record, with its metadata."""
        for partition_id, record in last.items():
            read = fingerprint_record(record.offset, record.timestamp_ms, record.value)
            text = PositionMetadata(self._topic_ids[record.topic], read).text
            # After a failed transaction all positions are read from the brokers again.
            position = TopicPartition(*partition_id, record.offset + 1, metadata=text)
            self._positions[partition_id] = position
        return self.current_positions(last)

    def current_positions(self, partition_ids: Iterable[PartitionId]) -> list[TopicPartition]:
        """The offset that was committed last, with its metadata."""
        return [self._positions[partition_id] for partition_id in partition_ids]

    def brokers_answer(self) -> bool:
        """Whether the brokers answer a new client; it uses a separate client."""
        return brokers_answer(self._settings)

    def _read_stored_ids(self) -> dict[str, str]:
        if not self._anchor:
            return {}
        [anchor] = self._read_committed([TopicPartition(self._anchor, 0)])
        return TopicIds.read(anchor.metadata).topic_ids

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
            reason = error.args[0].str()
            log.warning("topic ids not kept, the next assignment tries again", reason=reason)

    def _read_committed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        partition_ids = [(at.topic, at.partition) for at in partitions]
        return read_committed_positions(self._consumer, partition_ids, POSITIONS_SECONDS)


def _is_same_log(metadata: PositionMetadata | None, current: LogState) -> bool:
    return metadata is None or metadata.topic_id == current.topic_id
