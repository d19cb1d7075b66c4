"""Records that were gone before they were read: which ones, and how to go on without them.

That is somebody's decision.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cassandra.cluster import Session
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from runtime.bookmarks import Bookmark, Log, TopicIds, what_is_lost
from runtime.connect import NORMALISER_ANCHOR, NORMALISER_GROUP, kafka_admin, kafka_consumer
from runtime.gaps import AcceptedGap, note_gap, past_gaps, read_gaps
from runtime.marks import Mark, read_marks, topic_ids
from runtime.offsets import numbered, offsets_by_topic
from runtime.sources import FAMILIES
from runtime.topics import bounds_of
from schemas import loader
from tally.errors import TallyError
from tally.instants import from_millis
from tally.settings import Settings

_SECONDS = 30.0
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Hole:
    """What one job can no longer read of one partition, and why it cannot go on there.

    The job stands at `position`.
    """

    topic: str
    partition: int
    position: int
    loss: str
    bookmark: Bookmark | None
    log: Log

    @property
    def is_cut(self) -> bool:
        """Whether it is another log than the one that was read.

        The same one without its beginning is no other log.
        """
        return self.log.earliest <= self.position


def readable_topics() -> list[str]:
    """Topics with a reader that keeps its position.

    Raw ones are the normaliser's, canonical ones the master's.
    """
    topics = loader.topics()
    raw = [entry["raw"] for name, entry in topics.items() if name in FAMILIES]
    return [*raw, *FAMILIES]


def open_holes(settings: Settings, session: Session) -> list[Hole]:
    """Every partition whose reader cannot go on."""
    holes = (
        hole(settings, session, topic, number)
        for topic in readable_topics()
        for number in range(settings.partitions)
    )
    return [found for found in holes if found is not None]


def hole(settings: Settings, session: Session, topic: str, partition: int) -> Hole | None:
    """What the reader of one partition lacks, None if it can go on."""
    ids = topic_ids(settings, [topic])
    position, bookmark = (
        _of_the_master(settings, session, topic, partition)
        if topic in FAMILIES
        else _of_the_normaliser(settings, topic, partition)
    )
    with kafka_consumer(settings, "gaps") as consumer:
        earliest, end = bounds_of(consumer, (topic, partition), _SECONDS)
    last = bookmark.last if bookmark else None
    place = (topic, partition, last.offset) if last else None
    # A record of the master's that Kafka has let go by the clock tells nothing.
    if last and topic in FAMILIES and last.offset < earliest:
        log = Log(ids[topic], earliest, end, last)
    else:
        log = Log(
            ids[topic], earliest, end, read_marks(settings, [place])[place] if place else None
        )
    loss = what_is_lost(position, bookmark, log)
    return Hole(topic, partition, position, loss, bookmark, log) if loss else None


def accept(settings: Settings, session: Session, found: Hole, reason: str) -> AcceptedGap:
    """The gap, kept for good; the reader goes on behind it at its next start.

    Raises TallyError when a canonical log was cut or made anew, or when the normaliser runs.
    """
    if found.topic in FAMILIES and found.is_cut:
        raise TallyError(
            f"topic {found.topic} partition {found.partition}: {found.loss}; its offsets would"
            " repeat those of the master dataset: begin a new master dataset in another TALLY_HOME"
        )
    noted = datetime.now(UTC)
    # With nothing after the hole the lost records may have come until this moment.
    arrivals = _first_arrival(found), _last_arrival(settings, found) or noted
    gap = AcceptedGap(
        found.topic,
        found.partition,
        found.position,
        # Of a log that was cut this is the position: its lost records have no offsets of their own
        # any more.
        max(found.position, found.log.earliest),
        *arrivals,
        noted,
        reason,
    )
    note_gap(session, gap)
    if found.topic not in FAMILIES:
        _move(kafka_admin(settings), found)
    return gap


def _first_arrival(found: Hole) -> datetime:
    last = found.bookmark.last if found.bookmark else None
    return from_millis(last.timestamp_ms) if last else _NEVER


def _last_arrival(settings: Settings, found: Hole) -> datetime | None:
    """Arrival of the first record after the hole, if there is one.

    None if there is none, or it is a transaction's marker, or the log another one.
    """
    if found.is_cut:
        return None
    place = found.topic, found.partition, found.log.earliest
    first = read_marks(settings, [place])[place]
    return None if first is None else from_millis(first.timestamp_ms)


def _move(admin: AdminClient, found: Hole) -> None:
    """The normaliser goes on at the first record kept.

    Of a log that was cut, what it reads twice is a duplicate.
    """
    position = TopicPartition(
        found.topic,
        found.partition,
        found.log.earliest,
        metadata=Bookmark(found.log.topic_id).text,
    )
    # The brokers refuse it while the group has a member: no position moves under a normaliser.
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


def _of_the_normaliser(
    settings: Settings, topic: str, partition: int
) -> tuple[int, Bookmark | None]:
    asked = [
        ConsumerGroupTopicPartitions(
            NORMALISER_GROUP,
            [TopicPartition(topic, partition), TopicPartition(NORMALISER_ANCHOR, 0)],
        )
    ]
    # Held by a name: a client without one is gone before its answer.
    admin = kafka_admin(settings)
    answer = (
        admin.list_consumer_group_offsets(asked, request_timeout=_SECONDS)[NORMALISER_GROUP]
        .result(_SECONDS)
        .topic_partitions
    )
    kept = {at.topic: at for at in answer}
    known = TopicIds.read(kept[NORMALISER_ANCHOR].metadata).topic_ids.get(topic)
    committed = kept[topic]
    bookmark = Bookmark.read(committed.metadata) or (Bookmark(known) if known else None)
    return max(0, committed.offset), bookmark


def _of_the_master(
    settings: Settings, session: Session, topic: str, partition: int
) -> tuple[int, Bookmark | None]:
    # What the ingest itself goes by, gaps that were accepted before included.
    note: dict[str, Any] = next(
        _notes(settings),
        {"until": {}, "marks": {}},
    )
    until = offsets_by_topic(note["until"]).get(topic, {}).get(partition, 0)
    mark = numbered(
        note.get("marks", {}).get(topic, {}),
    ).get(partition)
    bookmark = Bookmark(note["topic_ids"][topic], Mark(**mark)) if mark else None
    return past_gaps(
        {topic: {partition: until}},
        read_gaps(session),
    )[topic][partition], bookmark


def _notes(settings: Settings) -> Iterator[dict[str, Any]]:
    """What the appends say that the master dataset holds, newest first."""
    if DeltaTable.is_deltatable(str(settings.master_path)):
        commits = DeltaTable(str(settings.master_path)).history()
        yield from (
            json.loads(commit["userMetadata"]) for commit in commits if commit.get("userMetadata")
        )
