"""Gaps: records that Kafka deleted before they were read; an operator decides to accept one."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

from cassandra.cluster import Session
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from batch_layer.master.extent import read_extent
from runtime.connect import NORMALISER_ANCHOR, NORMALISER_GROUP, kafka_admin, kafka_consumer
from runtime.kafka.groups import move_positions
from runtime.kafka.log_identity import (
    LogState,
    PositionMetadata,
    TopicIds,
    loss_reason,
    read_fingerprints,
    read_topic_ids,
)
from runtime.kafka.topics import read_partition_bounds
from runtime.records.gaps import AcceptedGap, read_gaps, skip_gaps, store_gap
from runtime.registry.sources import FAMILIES
from schemas import loader
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.time.instants import from_millis

_SECONDS = 30.0
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class OpenGap:
    """The records of a partition that its job can no longer read, from its next offset on."""

    topic: str
    partition: int
    position: int
    loss: str
    metadata: PositionMetadata | None
    log: LogState

    @property
    def is_cut(self) -> bool:
        """Whether the log is another one; deletion of its beginning makes it no other."""
        return self.log.earliest <= self.position


def readable_topics() -> list[str]:
    """The topics whose reader, the normaliser or the master's ingest, stores its position."""
    topics = loader.topics()
    raw = [entry["raw"] for name, entry in topics.items() if name in FAMILIES]
    return [*raw, *FAMILIES]


def find_open_gaps(settings: Settings, session: Session) -> list[OpenGap]:
    """The gap of each partition whose reader cannot continue."""
    places = product(readable_topics(), range(settings.partitions))
    gaps = (find_open_gap(settings, session, *place) for place in places)
    return [gap for gap in gaps if gap is not None]


def find_open_gap(
    settings: Settings, session: Session, topic: str, partition: int
) -> OpenGap | None:
    """The gap in front of the reader of one partition, None if it can continue."""
    ids = read_topic_ids(settings, [topic])
    position, metadata = (
        _master_position(settings, session, topic, partition)
        if topic in FAMILIES
        else _normaliser_position(settings, topic, partition)
    )
    with kafka_consumer(settings, "gaps") as consumer:
        earliest, end = read_partition_bounds(consumer, (topic, partition), _SECONDS)
    last = metadata.last if metadata else None
    place = (topic, partition, last.offset) if last else None
    # A record that the master has read and Kafka deleted by retention cannot be checked.
    if place and not (topic in FAMILIES and place[2] < earliest):
        last = read_fingerprints(settings, [place])[place]
    log = LogState(ids[topic], earliest, end, last)
    loss = loss_reason(position, metadata, log)
    return OpenGap(topic, partition, position, loss, metadata, log) if loss else None


def accept(settings: Settings, session: Session, open_gap: OpenGap, reason: str) -> AcceptedGap:
    """Store the gap permanently; the reader continues after it at its next start.

    Raises TallyError when a canonical log was truncated or re-created, or when the normaliser runs.
    """
    if open_gap.topic in FAMILIES and open_gap.is_cut:
        raise TallyError(
            f"topic {open_gap.topic} partition {open_gap.partition}: {open_gap.loss}; its offsets"
            " would repeat those of the master dataset: `tally recover` lets the log go on behind"
            " them"
        )
    accepted_at = datetime.now(UTC)
    last = open_gap.metadata.last if open_gap.metadata else None
    first_arrival = from_millis(last.timestamp_ms) if last else _NEVER
    # Without a record after the gap the lost records may have arrived until this moment.
    arrivals = first_arrival, _last_arrival(settings, open_gap) or accepted_at
    # For a truncated log the end is the position: its lost records have no offsets of their own
    # any more.
    span = open_gap.position, max(open_gap.position, open_gap.log.earliest)
    place = open_gap.topic, open_gap.partition
    gap = AcceptedGap(*place, *span, *arrivals, accepted_at, reason)
    store_gap(session, gap)
    if open_gap.topic not in FAMILIES:
        # What the normaliser reads twice are duplicates.
        place = open_gap.topic, open_gap.partition
        move_positions(settings, NORMALISER_GROUP, {place: open_gap.log.earliest})
    return gap


def _last_arrival(settings: Settings, gap: OpenGap) -> datetime | None:
    """When the first record after the gap arrived; None for none, a marker or another log."""
    if gap.is_cut:
        return None
    place = gap.topic, gap.partition, gap.log.earliest
    first = read_fingerprints(settings, [place])[place]
    return None if first is None else from_millis(first.timestamp_ms)


def _normaliser_position(
    settings: Settings, topic: str, partition: int
) -> tuple[int, PositionMetadata | None]:
    asked = [TopicPartition(topic, partition), TopicPartition(NORMALISER_ANCHOR, 0)]
    request = [ConsumerGroupTopicPartitions(NORMALISER_GROUP, asked)]
    # The variable keeps the client alive: without it the client is collected before its answer.
    admin = kafka_admin(settings)
    future = admin.list_consumer_group_offsets(request, request_timeout=_SECONDS)[NORMALISER_GROUP]
    answer = future.result(_SECONDS).topic_partitions
    positions = {position.topic: position for position in answer}
    known = TopicIds.read(positions[NORMALISER_ANCHOR].metadata).topic_ids.get(topic)
    committed = positions[topic]
    metadata = PositionMetadata.read(committed.metadata) or (
        PositionMetadata(known) if known else None
    )
    return max(0, committed.offset), metadata


def _master_position(
    settings: Settings, session: Session, topic: str, partition: int
) -> tuple[int, PositionMetadata | None]:
    # The position that the ingest itself uses, with the gaps that were accepted before.
    extent = read_extent(settings.master_path, [topic])
    until = extent.until.get(topic, {}).get(partition, 0)
    last = extent.fingerprints.get(topic, {}).get(partition)
    metadata = PositionMetadata(extent.topic_ids[topic], last) if last else None
    next_offsets = skip_gaps({topic: {partition: until}}, read_gaps(session))
    return next_offsets[topic][partition], metadata
