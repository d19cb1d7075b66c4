"""A hole in a canonical topic: refused, named by `tally gaps`, accepted for good, and passed."""

from datetime import UTC, datetime, timedelta

import pytest
from cassandra.cluster import Session
from confluent_kafka import TopicPartition

from batch_layer.master.ingest import QUERY
from batch_layer.master.positions import held_by, kept_offsets
from ops.gaps import accept, hole, open_holes
from ops.stack.probes import admin_client
from runtime.gaps import read_gaps
from tally.errors import DataLoss
from tally.settings import Settings
from tests.canonical import interval, receipt, send
from tests.integration.batch.conftest import Ingest

NOW = datetime.now(UTC).replace(microsecond=0)


def test_hole_is_refused_then_accepted_and_passed(ingest: Ingest, batch_settings: Settings, session: Session) -> None:
    [(partition, _), *_] = send(batch_settings, "sales", [receipt("1", number, NOW) for number in range(5)])
    ingest()
    until = held_by(batch_settings.master_path).until["sales"][partition]
    send(batch_settings, "sales", [receipt("1", number, NOW) for number in range(5, 12)])
    admin, bound = admin_client(batch_settings), TopicPartition("sales", partition, until + 3)
    admin.delete_records([bound])[bound].result(30)

    with pytest.raises(DataLoss, match=f"`tally gaps accept sales {partition}`"):
        ingest()
    [found] = open_holes(batch_settings, session)
    gap = accept(batch_settings, session, found, "a test")
    ingest()

    assert (gap.topic, gap.partition, gap.from_offset, gap.until_offset) == ("sales", partition, until, until + 3)
    assert NOW <= gap.first_arrival <= gap.last_arrival <= gap.noted_at
    assert [(kept.from_offset, kept.until_offset, kept.reason) for kept in read_gaps(session)] == [(until, until + 3, "a test")]
    assert held_by(batch_settings.master_path).until["sales"] == {
        number: end for number, (_, end) in kept_offsets(batch_settings, ["sales"])["sales"].items()
    }
    assert open_holes(batch_settings, session) == []


def test_checkpoint_from_before_a_hole_is_left_behind_once_also_while_nothing_has_come_after_it(
    ingest: Ingest, batch_settings: Settings, session: Session
) -> None:
    [(partition, _), *_] = send(batch_settings, "traffic", [interval("1", "door", NOW, number) for number in range(5)])
    ingest()
    send(batch_settings, "traffic", [interval("1", "door", NOW + timedelta(minutes=15 * number), number) for number in range(1, 4)])
    _, end = kept_offsets(batch_settings, ["traffic"])["traffic"][partition]
    admin, bound = admin_client(batch_settings), TopicPartition("traffic", partition, end)
    admin.delete_records([bound])[bound].result(30)
    [found] = open_holes(batch_settings, session)
    accept(batch_settings, session, found, "a test")
    checkpoint = batch_settings.checkpoint(QUERY)

    before = set(checkpoint.parent.glob(f"{checkpoint.name}-before-gap-*"))
    for _ in range(3):
        ingest()

    assert len(set(checkpoint.parent.glob(f"{checkpoint.name}-before-gap-*")) - before) == 1


def test_nothing_missing_is_no_hole(batch_settings: Settings, session: Session) -> None:
    assert hole(batch_settings, session, "traffic", 0) is None
