"""A gap in a canonical topic: refused, named by `tally gaps`, accepted for good, and passed."""

import time
from datetime import UTC, datetime

import pytest
from cassandra.cluster import Session
from confluent_kafka import TopicPartition

from batch_layer.master.extent import read_extent
from batch_layer.master.ingest import QUERY
from batch_layer.master.positions import read_bounds_by_topic
from ops.gaps import accept, find_open_gap, find_open_gaps
from runtime.connect import kafka_admin
from runtime.records.gaps import read_gaps
from tally.config.settings import Settings
from tally.errors import DataLoss
from tests.integration.batch.conftest import Ingest
from tests.support.sources.canonical import receipt, send

NOW = datetime.now(UTC).replace(microsecond=0)


def delete_before(settings: Settings, partition: int, offset: int) -> None:
    """Records of sales before the offset are gone."""
    admin, bound = kafka_admin(settings), TopicPartition("sales", partition, offset)
    admin.delete_records([bound])[bound].result(30)


def left_behind(settings: Settings) -> int:
    """How many checkpoints were moved aside."""
    checkpoint = settings.checkpoint(QUERY)
    return len(list(checkpoint.parent.glob(f"{checkpoint.name}-before-gap-*")))


def test_hole_is_refused_then_accepted_and_passed(
    ingest: Ingest, batch_settings: Settings, session: Session
) -> None:
    [(partition, _), *_] = send(
        batch_settings, "sales", [receipt("1", number, NOW) for number in range(5)]
    )
    ingest()
    until = read_extent(batch_settings.master_path).until["sales"][partition]
    send(batch_settings, "sales", [receipt("1", number, NOW) for number in range(5, 12)])
    delete_before(batch_settings, partition, until + 3)

    with pytest.raises(DataLoss, match=f"`tally gaps accept sales {partition}`"):
        ingest()
    [found] = find_open_gaps(batch_settings, session)
    gap = accept(batch_settings, session, found, "a test")
    ingest()

    assert (gap.topic, gap.partition, gap.from_offset, gap.until_offset) == (
        "sales",
        partition,
        until,
        until + 3,
    )
    assert NOW <= gap.first_arrival <= gap.last_arrival <= gap.noted_at
    assert [(kept.from_offset, kept.until_offset, kept.reason) for kept in read_gaps(session)] == [
        (until, until + 3, "a test")
    ]
    assert read_extent(batch_settings.master_path).until["sales"] == {
        number: end
        for number, (_, end) in read_bounds_by_topic(batch_settings, ["sales"])["sales"].items()
    }
    assert (find_open_gaps(batch_settings, session), left_behind(batch_settings)) == ([], 1)

    # A gap behind which nothing has come yet: the checkpoint from before it is left behind once,
    # not at every start.
    send(batch_settings, "sales", [receipt("1", number, NOW) for number in range(12, 15)])
    delete_before(
        batch_settings,
        partition,
        read_bounds_by_topic(batch_settings, ["sales"])["sales"][partition][1],
    )
    [found] = find_open_gaps(batch_settings, session)
    accept(batch_settings, session, found, "a test")
    # The checkpoints that are left behind are named by the second.
    time.sleep(1)
    for _ in range(3):
        ingest()
    assert left_behind(batch_settings) == 2


def test_nothing_missing_is_no_hole(batch_settings: Settings, session: Session) -> None:
    assert find_open_gap(batch_settings, session, "traffic", 0) is None
