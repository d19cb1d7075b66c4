"""Gaps: records that Kafka deleted before they were read, and how to continue without them.

An operator decides whether to accept a gap.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from cassandra.cluster import Session
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from batch_layer.master.positions import read_extent
from runtime.connect import NORMALISER_ANCHOR, NORMALISER_GROUP, kafka_admin, kafka_consumer
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
    """The records of one partition that a job can no longer read, and why it cannot continue.

    The job's next offset is `position`.
    """

    topic: str
    partition: int
    position: int
    loss: str
    bookmark: PositionMetadata | None
    log: LogState

    @property
    def is_cut(self) -> bool:
        """Whether the log is not the one that was read before.

        The same log with its beginning deleted does not count as another log.
        """
        return self.log.earliest <= self.position


def readable_topics() -> list[str]:
    """The topics whose reader stores its position.

    The normaliser reads the raw topics, the master's ingest the canonical ones.
    """
    topics = loader.topics()
    raw = [entry["raw"] for name, entry in topics.items() if name in FAMILIES]
    return [*raw, *FAMILIES]


def find_open_gaps(settings: Settings, session: Session) -> list[OpenGap]:
    """All partitions whose reader cannot continue, as holes."""
    holes = (
        find_open_gap(settings, session, topic, number)
        for topic in readable_topics()
        for number in range(settings.partitions)
    )
    return [found for found in holes if found is not None]


def find_open_gap(
    settings: Settings, session: Session, topic: str, partition: int
) -> OpenGap | None:
    """The hole in front of the reader of one partition, None if it can continue."""
    ids = read_topic_ids(settings, [topic])
    position, bookmark = (
        _master_position(settings, session, topic, partition)
        if topic in FAMILIES
        else _normaliser_position(settings, topic, partition)
    )
    with kafka_consumer(settings, "gaps") as consumer:
        earliest, end = read_partition_bounds(consumer, (topic, partition), _SECONDS)
    last = bookmark.last if bookmark else None
    place = (topic, partition, last.offset) if last else None
    # A record that the master has read and Kafka deleted by retention cannot be checked.
    if last and topic in FAMILIES and last.offset < earliest:
        log = LogState(ids[topic], earliest, end, last)
    else:
        log = LogState(
            ids[topic],
            earliest,
            end,
            read_fingerprints(settings, [place])[place] if place else None,
        )
    loss = loss_reason(position, bookmark, log)
    return OpenGap(topic, partition, position, loss, bookmark, log) if loss else None


def accept(settings: Settings, session: Session, found: OpenGap, reason: str) -> AcceptedGap:
    """Store the gap permanently; the reader continues after it at its next start.

    Raises TallyError when a canonical log was truncated or re-created, or when the normaliser runs.
    """
    if found.topic in FAMILIES and found.is_cut:
        raise TallyError(
            f"topic {found.topic} partition {found.partition}: {found.loss}; its offsets would"
            " repeat those of the master dataset: begin a new master dataset in another TALLY_HOME"
        )
    accepted_at = datetime.now(UTC)
    # Without a record after the hole the lost records may have arrived until this moment.
    arrivals = _first_arrival(found), _last_arrival(settings, found) or accepted_at
    gap = AcceptedGap(
        found.topic,
        found.partition,
        found.position,
        # For a truncated log this is the position: its lost records have no offsets of their own
        # any more.
        max(found.position, found.log.earliest),
        *arrivals,
        accepted_at,
        reason,
    )
    store_gap(session, gap)
    if found.topic not in FAMILIES:
        _move_position(kafka_admin(settings), found)
    return gap


def _first_arrival(found: OpenGap) -> datetime:
    last = found.bookmark.last if found.bookmark else None
    return from_millis(last.timestamp_ms) if last else _NEVER


def _last_arrival(settings: Settings, found: OpenGap) -> datetime | None:
    """The arrival time of the first record after the hole.

    None if there is no record, or it is a transaction marker, or the log is another one.
    """
    if found.is_cut:
        return None
    place = found.topic, found.partition, found.log.earliest
    first = read_fingerprints(settings, [place])[place]
    return None if first is None else from_millis(first.timestamp_ms)


def _move_position(admin: AdminClient, found: OpenGap) -> None:
    """Move the normaliser's committed offset to the first record that Kafka still keeps.

    If the log was truncated, records that it reads twice are duplicates.
    """
    position = TopicPartition(
        found.topic,
        found.partition,
        found.log.earliest,
        metadata=PositionMetadata(found.log.topic_id).text,
    )
    # The brokers refuse this while the group has a member: a running normaliser keeps its offset.
    moved = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(NORMALISER_GROUP, [position])], request_timeout=_SECONDS
    )
    try:
        moved[NORMALISER_GROUP].result(_SECONDS)
    except KafkaException as error:
        reason = error.args[0].str()
        raise TallyError(
            f"the normaliser's position was not moved ({reason});"
            " `tally down normaliser`, then accept again"
        ) from error


def _normaliser_position(
    settings: Settings, topic: str, partition: int
) -> tuple[int, PositionMetadata | None]:
    request = [
        ConsumerGroupTopicPartitions(
            NORMALISER_GROUP,
            [TopicPartition(topic, partition), TopicPartition(NORMALISER_ANCHOR, 0)],
        )
    ]
    # The variable keeps the client alive: without it the client is collected before its answer.
    admin = kafka_admin(settings)
    answer = (
        admin.list_consumer_group_offsets(request, request_timeout=_SECONDS)[NORMALISER_GROUP]
        .result(_SECONDS)
        .topic_partitions
    )
    positions = {position.topic: position for position in answer}
    known = TopicIds.read(positions[NORMALISER_ANCHOR].metadata).topic_ids.get(topic)
    committed = positions[topic]
    bookmark = PositionMetadata.read(committed.metadata) or (
        PositionMetadata(known) if known else None
    )
    return max(0, committed.offset), bookmark


def _master_position(
    settings: Settings, session: Session, topic: str, partition: int
) -> tuple[int, PositionMetadata | None]:
    # The position that the ingest itself uses, with the gaps that were accepted before.
    held = read_extent(settings.master_path)
    until = held.until.get(topic, {}).get(partition, 0)
    mark = held.marks.get(topic, {}).get(partition)
    bookmark = PositionMetadata(held.topic_ids[topic], mark) if mark else None
    wanted = skip_gaps({topic: {partition: until}}, read_gaps(session))
    return wanted[topic][partition], bookmark
