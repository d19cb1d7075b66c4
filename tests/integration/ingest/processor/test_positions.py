"""What a job refuses to read on from: records deleted before they were read, a topic made anew,
a log cut and grown again."""

from collections.abc import Sequence

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from runtime.connect import kafka_admin
from runtime.kafka.log_identity import PositionMetadata, RecordFingerprint
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    Start,
    committed_values,
    send_values,
    stop,
    wait_until,
    wait_until_read,
    wait_until_ready,
)

COPIER = "tests.integration.ingest.processor.copier"
VALUES = [f"v{number:03d}" for number in range(40)]


@pytest.fixture
def admin(kafka: str, settings: Settings) -> AdminClient:
    return kafka_admin(settings)


def delete_below(admin: AdminClient, topic: str, bounds: Sequence[int]) -> None:
    """Delete the first records of each partition."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(bounds)]
    for gone in admin.delete_records(places).values():
        gone.result(30)


def committed(admin: AdminClient, group: str) -> list[TopicPartition]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
        30
    )
    # Beside those of its topic the group keeps a position in the anchor.
    return sorted(
        (at for at in found.topic_partitions if at.topic == group), key=lambda at: at.partition
    )


def commit(admin: AdminClient, group: str, positions: list[TopicPartition]) -> None:
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, positions)])[
        group
    ].result(30)


def copied(start: Start, settings: Settings, topics: tuple[str, str]) -> None:
    """Everything in the input topic, copied by a process that has ended."""
    process = start(COPIER, topics[0], *topics)
    wait_until_ready(process)
    wait_until_read(settings, topics[0], topics[:1])
    assert stop(process) == 0


def refused(start: Start, topics: tuple[str, str]) -> str:
    """What a copier says that does not begin."""
    process = start(COPIER, topics[0], *topics)
    _, errors = process.communicate(timeout=600)
    assert (process.returncode, "copier: DataLoss: " in errors) == (1, True), errors
    return errors.partition("copier: DataLoss: ")[2].strip()


def test_first_start_does_not_skip_what_was_deleted_before_it(
    start: Start, settings: Settings, topics: tuple[str, str], admin: AdminClient
) -> None:
    send_values(settings, topics[0], VALUES)
    delete_below(admin, topics[0], [5])

    told = refused(start, topics)

    assert "partition 0: offsets 0 to 4 were deleted before they were read" in told
    assert f"`tally gaps accept {topics[0]} 0`" in told
    assert committed_values(settings, topics[1]) == []


def test_lost_group_offsets_are_no_leave_to_skip(
    start: Start, settings: Settings, topics: tuple[str, str], admin: AdminClient
) -> None:
    send_values(settings, topics[0], VALUES)
    copied(start, settings, topics)
    delete_below(admin, topics[0], [3, 3])
    admin.delete_consumer_groups([topics[0]])[topics[0]].result(30)

    assert "offsets 0 to 2 were deleted before they were read" in refused(start, topics)


def test_records_deleted_during_an_outage_are_named(
    start: Start, settings: Settings, topics: tuple[str, str], admin: AdminClient
) -> None:
    send_values(settings, topics[0], VALUES)
    copied(start, settings, topics)
    send_values(settings, topics[0], VALUES)
    [first, *_] = committed(admin, topics[0])
    delete_below(admin, topics[0], [first.offset + 2])

    assert f"partition 0: offsets {first.offset} to {first.offset + 1} were deleted" in refused(
        start, topics
    )


@pytest.fixture
def position(
    start: Start, settings: Settings, topics: tuple[str, str], admin: AdminClient
) -> tuple[TopicPartition, PositionMetadata]:
    """A committed position of a group that has read everything, and its metadata."""
    send_values(settings, topics[0], VALUES)
    copied(start, settings, topics)
    [first, *_] = [at for at in committed(admin, topics[0]) if at.offset > 0]
    metadata = PositionMetadata.read(first.metadata)
    assert (
        metadata is not None
        and metadata.last is not None
        and metadata.last.offset == first.offset - 1
    )
    return first, metadata


def test_topic_made_anew_is_noticed_though_its_positions_went_with_it(
    start: Start, settings: Settings, topics: tuple[str, str], admin: AdminClient
) -> None:
    send_values(settings, topics[0], VALUES)
    copied(start, settings, topics)
    admin.delete_topics([topics[0]])[topics[0]].result(30)
    wait_until(lambda: topics[0] not in admin.list_topics(timeout=10).topics)
    admin.create_topics([NewTopic(topics[0], settings.partitions, 1)])[topics[0]].result(30)
    send_values(settings, topics[0], 3 * VALUES)

    assert "deleted and created again" in refused(start, topics)


def test_log_of_another_topic_id_is_noticed_though_offsets_and_records_fit(
    start: Start,
    topics: tuple[str, str],
    admin: AdminClient,
    position: tuple[TopicPartition, PositionMetadata],
) -> None:
    at, metadata = position
    commit(
        admin,
        topics[0],
        [
            TopicPartition(
                at.topic,
                at.partition,
                at.offset,
                metadata=PositionMetadata("another", metadata.last).text,
            )
        ],
    )

    assert "deleted and created again" in refused(start, topics)


def test_log_that_was_cut_and_has_grown_again_is_noticed(
    start: Start,
    topics: tuple[str, str],
    admin: AdminClient,
    position: tuple[TopicPartition, PositionMetadata],
) -> None:
    at, metadata = position
    # As it looks after a cut: the offset is there, with a record that is not the one that was read.
    other = PositionMetadata(metadata.topic_id, RecordFingerprint(at.offset - 1, 0, ""))
    commit(
        admin, topics[0], [TopicPartition(at.topic, at.partition, at.offset, metadata=other.text)]
    )

    assert f"the record at offset {at.offset - 1} is not the one that was read there" in refused(
        start, topics
    )


def test_same_log_is_read_on_with_its_last_read_record_alone(
    start: Start, settings: Settings, topics: tuple[str, str], admin: AdminClient
) -> None:
    send_values(settings, topics[0], VALUES)
    copied(start, settings, topics)
    delete_below(admin, topics[0], [max(0, at.offset - 1) for at in committed(admin, topics[0])])
    send_values(settings, topics[0], ["more"])

    copied(start, settings, topics)

    assert committed_values(settings, topics[1]) == sorted([*VALUES, "more"])
