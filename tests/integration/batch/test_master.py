"""The master dataset holds each committed record once, whatever happens to the checkpoint."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from batch_layer.master.ingest import QUERY
from batch_layer.master.positions import Held, held_by
from batch_layer.master.table import append, read_version
from ops.audit.topics import committed_counts
from tally.connect import kafka_producer
from tally.errors import DataLoss
from tally.settings import Settings
from tests.canonical import receipt, send
from tests.integration.batch.conftest import Ingest

NOON = datetime(2017, 3, 1, 12, tzinfo=UTC)


def send_receipts(settings: Settings, first: int, count: int) -> None:
    send(settings, "sales", [receipt(str(number % 7), number, NOON + timedelta(minutes=number)) for number in range(first, first + count)])


def master_coordinates(settings: Settings) -> list[tuple[int, int]]:
    table = DeltaTable(str(settings.master_path)).to_pyarrow_table(columns=["source", "partition", "offset"])
    return sorted((row["partition"], row["offset"]) for row in table.to_pylist() if row["source"] == "sales")


def assert_each_committed_record_once(settings: Settings) -> None:
    coordinates = master_coordinates(settings)
    assert len(coordinates) == len(set(coordinates)) == sum(committed_counts(settings, "sales").values()) > 0


def test_checkpoint_deleted_the_master_holds_each_record_once(ingest: Ingest, batch_settings: Settings) -> None:
    send_receipts(batch_settings, 0, 40)
    ingest()
    shutil.rmtree(batch_settings.checkpoint(QUERY))
    send_receipts(batch_settings, 40, 25)

    ingest()

    assert_each_committed_record_once(batch_settings)


def test_older_checkpoint_restored_with_larger_batches_loses_and_repeats_nothing(ingest: Ingest, batch_settings: Settings) -> None:
    checkpoint = batch_settings.checkpoint(QUERY)
    send_receipts(batch_settings, 100, 40)
    ingest(maxOffsetsPerTrigger="10")
    shutil.copytree(checkpoint, checkpoint.with_name("backup"))
    send_receipts(batch_settings, 140, 20)
    ingest(maxOffsetsPerTrigger="10")
    shutil.rmtree(checkpoint)
    checkpoint.with_name("backup").rename(checkpoint)
    send_receipts(batch_settings, 160, 25)

    ingest(maxOffsetsPerTrigger="20")

    assert_each_committed_record_once(batch_settings)


def test_checkpoint_ahead_of_the_table_is_refused_and_nothing_is_skipped(ingest: Ingest, batch_settings: Settings) -> None:
    send_receipts(batch_settings, 200, 10)
    ingest()
    shutil.rmtree(batch_settings.master_path)
    send_receipts(batch_settings, 210, 10)

    with pytest.raises(StreamingQueryException, match="the master dataset ends at 0"):
        ingest()

    assert master_coordinates(batch_settings) == []


def test_table_lost_in_a_first_micro_batch_that_began_behind_it_is_refused(ingest: Ingest, batch_settings: Settings) -> None:
    checkpoint = batch_settings.checkpoint(QUERY)
    send_receipts(batch_settings, 500, 10)
    ingest()
    shutil.rmtree(checkpoint)
    send_receipts(batch_settings, 510, 10)
    ingest()
    for file in checkpoint.glob("commits/*0*"):
        file.unlink()
    shutil.rmtree(batch_settings.master_path)

    with pytest.raises(StreamingQueryException, match="the master dataset ends at 0"):
        ingest()


def test_aborted_records_are_not_in_the_master(ingest: Ingest, batch_settings: Settings) -> None:
    producer = kafka_producer(batch_settings, {"transactional.id": "aborting", "message.timeout.ms": 5000, "transaction.timeout.ms": 10000})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("sales", b"{}", "1", 0)
    producer.flush(10)
    producer.abort_transaction(10)
    send_receipts(batch_settings, 300, 5)

    ingest()

    assert_each_committed_record_once(batch_settings)


def test_second_ingester_whose_append_delta_skips_ends_instead_of_losing_records(
    ingest: Ingest, batch_settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_receipts(batch_settings, 500, 5)
    ingest()
    path, held = batch_settings.master_path, held_by(batch_settings.master_path)
    newest = DeltaTable(str(path)).version()
    records = read_version(spark, path, newest)
    # What the other one saw just before this append was committed.
    monkeypatch.setattr(DeltaTable, "version", lambda _table: newest - 1)

    with pytest.raises(DataLoss, match="stop the other ingester"):
        append(records, path, Held(held.topic_ids, {"sales": {0: 10**6}}))

    monkeypatch.undo()
    assert_each_committed_record_once(batch_settings)
    assert held_by(path) == held


def test_nothing_can_be_deleted_from_the_master(ingest: Ingest, batch_settings: Settings, spark: SparkSession) -> None:
    send_receipts(batch_settings, 400, 5)
    ingest()

    with pytest.raises(Exception, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql(f"DELETE FROM delta.`{batch_settings.master_path}` WHERE source = 'sales'")
