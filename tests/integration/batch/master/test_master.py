"""The master dataset holds each committed record once, whatever happens to the checkpoint."""

import fcntl
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from cassandra.cluster import Session
from deltalake import DeltaTable
from msgspec.structs import replace
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from batch_layer.master import ingest as ingest_module
from batch_layer.master.extent import MasterExtent, read_extent
from batch_layer.master.files import FilePart
from batch_layer.master.ingest import QUERY, start_ingest
from batch_layer.master.positions import read_bounds_by_topic
from batch_layer.master.progress import IngestWatch
from batch_layer.master.table import MasterTable
from runtime.kafka.reader import read_to_end
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.errors import AlreadyRunning, DataLoss
from tests.integration.batch.conftest import Ingest
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import receipt, send

NOON = datetime(2017, 3, 1, 12, tzinfo=UTC)


def send_receipts(settings: Settings, first: int, count: int) -> None:
    send(
        settings,
        "sales",
        [
            receipt(str(number % 7), number, NOON + timedelta(minutes=number))
            for number in range(first, first + count)
        ],
    )


def master_coordinates(settings: Settings) -> list[tuple[int, int]]:
    table = DeltaTable(str(settings.master_path)).to_pyarrow_table(
        columns=["source", "partition", "offset"]
    )
    return sorted(
        (row["partition"], row["offset"]) for row in table.to_pylist() if row["source"] == "sales"
    )


def assert_each_committed_record_once(settings: Settings) -> None:
    coordinates = master_coordinates(settings)
    assert (
        len(coordinates) == len(set(coordinates)) == len(list(read_to_end(settings, ["sales"]))) > 0
    )


def ends(settings: Settings, topic: str) -> dict[int, int]:
    return {
        number: end for number, (_, end) in read_bounds_by_topic(settings, [topic])[topic].items()
    }


def test_older_checkpoint_restored_with_larger_batches_loses_and_repeats_nothing(
    ingest: Ingest, batch_settings: Settings
) -> None:
    # The first to send: what others have sent would be read in micro-batches of ten too.
    checkpoint = batch_settings.checkpoint(QUERY)
    send_receipts(batch_settings, 100, 20)
    ingest(maxOffsetsPerTrigger="10")
    shutil.copytree(checkpoint, checkpoint.with_name("backup"))
    send_receipts(batch_settings, 120, 15)
    ingest(maxOffsetsPerTrigger="10")
    shutil.rmtree(checkpoint)
    checkpoint.with_name("backup").rename(checkpoint)
    send_receipts(batch_settings, 135, 15)

    ingest(maxOffsetsPerTrigger="20")

    assert_each_committed_record_once(batch_settings)


def test_checkpoint_deleted_the_master_holds_each_record_once(
    ingest: Ingest, batch_settings: Settings
) -> None:
    send_receipts(batch_settings, 0, 40)
    ingest()
    shutil.rmtree(batch_settings.checkpoint(QUERY))
    send_receipts(batch_settings, 40, 25)

    ingest()

    assert_each_committed_record_once(batch_settings)


def test_checkpoint_ahead_of_the_table_is_refused_and_nothing_is_skipped(
    ingest: Ingest, batch_settings: Settings
) -> None:
    send_receipts(batch_settings, 200, 10)
    ingest()
    shutil.rmtree(batch_settings.master_path)
    send_receipts(batch_settings, 210, 10)

    with pytest.raises(StreamingQueryException, match="the master dataset ends at 0"):
        ingest()

    assert master_coordinates(batch_settings) == []


def test_table_lost_in_a_first_micro_batch_that_began_behind_it_is_refused(
    ingest: Ingest, batch_settings: Settings
) -> None:
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
    abort_one(batch_settings)
    send_receipts(batch_settings, 300, 5)

    ingest()

    assert_each_committed_record_once(batch_settings)


def test_append_between_reading_the_table_and_appending_is_noticed_and_nothing_is_held_twice(
    ingest: Ingest, batch_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_receipts(batch_settings, 500, 5)
    ingest()
    path = batch_settings.master_path
    send_receipts(batch_settings, 510, 5)

    real = MasterTable.append

    def another_appends_first(
        self: MasterTable, parts: Sequence[FilePart], after: MasterExtent
    ) -> None:
        real(MasterTable.open(path), parts, after)
        real(self, parts, after)

    monkeypatch.setattr(MasterTable, "append", another_appends_first)
    with pytest.raises(
        StreamingQueryException, match="another ingester has appended since version"
    ):
        ingest()

    monkeypatch.undo()
    assert_each_committed_record_once(batch_settings)
    ingest()
    assert_each_committed_record_once(batch_settings)
    assert read_extent(path).until["sales"] == ends(batch_settings, "sales")


def test_log_that_was_cut_and_has_grown_again_stops_the_ingest(
    ingest: Ingest, batch_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_receipts(batch_settings, 600, 5)
    ingest()
    held = read_extent(batch_settings.master_path)
    # As it looks after a cut: the offsets are there, with other records than those that were
    # appended.
    other = {
        topic: {at: replace(last, sha256="00") for at, last in fingerprints.items()}
        for topic, fingerprints in held.fingerprints.items()
    }
    monkeypatch.setattr(
        "batch_layer.master.table.load_extent",
        lambda _table: MasterExtent(held.topic_ids, held.until, other),
    )

    with pytest.raises(DataLoss, match="is not the one that the master dataset holds"):
        ingest()


def test_ingest_waits_for_the_jvm_of_a_killed_one_and_begins_nothing_beside_it(
    batch_settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.spark.session._JVM_SECONDS", 1.0)
    monkeypatch.setattr(ingest_module, "build_session", lambda _settings, _name: spark)
    stop = Event()
    stop.set()
    folder = batch_settings.master_path
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.jvm-lock").open("w") as held:
        # As another process sees it, this is the lock that a JVM takes.
        fcntl.lockf(held, fcntl.LOCK_EX)

        with pytest.raises(AlreadyRunning, match="the JVM of an earlier driver still runs"):
            ingest_module._ingest(batch_settings, stop)


def test_nothing_can_be_deleted_from_the_master(
    ingest: Ingest, batch_settings: Settings, spark: SparkSession
) -> None:
    send_receipts(batch_settings, 400, 5)
    ingest()

    with pytest.raises(Exception, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql(f"DELETE FROM delta.`{batch_settings.master_path}` WHERE source = 'sales'")


def test_ingest_started_again_behind_an_aborted_transaction_is_current_at_once(
    ingest: Ingest, batch_settings: Settings, spark: SparkSession, session: Session
) -> None:
    send_receipts(batch_settings, 700, 5)
    abort_one(batch_settings)
    ingest()
    begun = datetime.now(UTC)

    running = start_ingest(spark, session, batch_settings)
    try:
        watch = IngestWatch(batch_settings, session)
        watch.check(running.state.position)
    finally:
        running.query.stop()

    current = {
        row.family: row.current_at.replace(tzinfo=UTC)
        for row in session.execute("SELECT family, current_at FROM master_current")
    }
    assert current.keys() == {*FAMILIES} and min(current.values()) >= begun.replace(
        microsecond=begun.microsecond // 1000 * 1000
    )


def abort_one(settings: Settings) -> None:
    """A transaction with one canonical record, aborted."""
    producer = connected_producer(
        settings,
        {
            "transactional.id": "aborting",
            "message.timeout.ms": 5000,
            "transaction.timeout.ms": 10000,
        },
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("sales", b"{}", "1", 0)
    producer.flush(10)
    producer.abort_transaction(10)
