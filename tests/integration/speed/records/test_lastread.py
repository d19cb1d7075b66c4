"""A topic that was made anew, or cut and grown again, is not the one that a query has read."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import NewTopic

from runtime.connect import kafka_admin
from runtime.kafka.log_identity import read_topic_ids
from speed_layer.checkpoint_files import (
    TopicCheckpoint,
    TopicIdentity,
    load_topic_identities,
    store_topic_identities,
    verify_topic_identity,
)
from speed_layer.session import read_retained_offsets
from speed_layer.state.records import parse_reports
from tally.config.settings import Settings
from tally.errors import DataLoss
from tally.events.identity import partition_number
from tests.integration.speed.query import NOON, SpeedQuery
from tests.support.sources.canonical import receipt, send

STORE = "7"
SOLD = [receipt(STORE, number, NOON) for number in range(6)]


@pytest.fixture
def checkpoint(settings: Settings, topic: str, tmp_path: Path) -> Iterator[Path]:
    """Of a query that has read three records of the store."""
    send(settings, topic, SOLD[:3])
    place = partition_number(STORE, settings.partitions)
    last = {place: (2, zlib.crc32(msgspec.json.encode(SOLD[2])))}
    store_topic_identities(
        tmp_path, {topic: TopicIdentity(read_topic_ids(settings, [topic])[topic], last)}
    )
    yield tmp_path


def check(settings: Settings, topic: str, checkpoint: Path) -> TopicCheckpoint:
    """What a query that goes on with the checkpoint is given."""
    return verify_topic_identity(
        settings, checkpoint, {topic: read_retained_offsets(settings, topic)}
    )


def test_topic_that_has_only_grown_is_the_same(
    settings: Settings, topic: str, checkpoint: Path
) -> None:
    send(settings, topic, SOLD[3:])

    check(settings, topic, checkpoint)


def test_topic_made_anew_and_grown_beyond_the_old_position_is_refused(
    settings: Settings, topic: str, checkpoint: Path
) -> None:
    admin = kafka_admin(settings)
    admin.delete_topics([topic])[topic].result(30)
    admin.create_topics(
        [NewTopic(topic, num_partitions=settings.partitions, replication_factor=1)]
    )[topic].result(30)
    # The very same records and more: only the id tells.
    send(settings, topic, SOLD)

    with pytest.raises(
        DataLoss,
        match=(
            r"it was created again, its id is \S+, the query has read \S+;"
            " move the checkpoint folder"
        ),
    ):
        check(settings, topic, checkpoint)


def test_other_record_at_the_last_offset_read_is_refused(
    settings: Settings, topic: str, checkpoint: Path
) -> None:
    ((place, (offset, crc)),) = load_topic_identities(checkpoint)[topic].last.items()
    plant(checkpoint, topic, {place: (offset, crc + 1)})

    with pytest.raises(
        DataLoss,
        match=rf"partition {place}: at offset 2 lies another record than the query has read",
    ):
        check(settings, topic, checkpoint)


def plant(checkpoint: Path, topic: str, last: dict[int, tuple[int, int]]) -> None:
    """Other marks than those that were kept."""
    store_topic_identities(
        checkpoint, {topic: replace(load_topic_identities(checkpoint)[topic], last=last)}
    )


def test_record_that_kafka_no_longer_keeps_is_not_asked_for(
    settings: Settings, topic: str, checkpoint: Path
) -> None:
    held = read_retained_offsets(settings, topic)
    plant(
        checkpoint,
        topic,
        {
            place: (offset, crc + 1)
            for place, (offset, crc) in load_topic_identities(checkpoint)[topic].last.items()
        },
    )

    verify_topic_identity(
        settings, checkpoint, {topic: replace(held, earliest=dict.fromkeys(held.earliest, 3))}
    )


def test_topic_that_the_query_has_not_had_before_is_taken_as_it_is(
    settings: Settings, topic: str, tmp_path: Path
) -> None:
    check(settings, topic, tmp_path)

    assert load_topic_identities(tmp_path) == {
        topic: TopicIdentity(read_topic_ids(settings, [topic])[topic], {})
    }


def test_mark_of_a_micro_batch_is_the_last_value_of_each_partition(query: SpeedQuery) -> None:
    sold = [query.sale(1), query.sale(2), receipt("other", 1, NOON)]
    query.send(*sold)

    reports = {report.partition: report for report in parse_reports(query.run())}

    place, other = (
        partition_number(store, query.settings.partitions) for store in (query.store, "other")
    )
    assert (reports[place].offset, reports[place].crc) == (
        1 + (place == other),
        zlib.crc32(msgspec.json.encode(sold[1 + (place == other)])),
    )
    assert (reports[other].offset, reports[other].crc) == (
        2 * (place == other),
        zlib.crc32(msgspec.json.encode(sold[2])),
    )
