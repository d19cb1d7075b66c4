"""What Kafka and Cassandra have lost comes back from the master dataset, which then goes on."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from batch_layer.master.extent import read_log_starts
from batch_layer.recovery import logs
from batch_layer.recovery.recover import recover, restore_baselines
from batch_layer.views.baselines import make_snapshots
from ops.conflicts import accept, till_conflicts
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.kafka.reader import read_to_end
from runtime.records.control_copies import TABLES, copy_table
from runtime.records.gaps import declare_backfill, read_gaps
from runtime.registry.sources import FAMILIES
from tally.errors import DataLoss, StackError, TallyError
from tally.events.identity import partition_number
from tests.conftest import empty_tables, empty_topics
from tests.integration.batch.parts import Parts, at
from tests.support.sources.canonical import interval, receipt, send, void_of

MONDAY, TUESDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 7), date(2017, 3, 8)
# What the ingest notes beside the master; write times aside, a recovery must write the same.
REGISTERS = ("master_progress", "master_position", "master_arrival", "linked_record")


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("master")
    settings = own_site.settings.model_copy(update={"home": home, "ingest_trigger_seconds": 0.0})
    with cassandra_session(settings) as session:
        for family in FAMILIES:
            declare_backfill(session, family, (MONDAY, WEDNESDAY), "the story")
        yield Parts(spark, session, settings)


def registers(parts: Parts) -> dict[str, set[Any]]:
    return {
        table: {tuple(map(str, row)) for row in parts.session.execute(f"SELECT * FROM {table}")}
        for table in REGISTERS
    }


def coordinates(parts: Parts) -> list[tuple[str, int, int]]:
    names = ["source", "partition", "offset"]
    rows = DeltaTable(str(parts.settings.master_path)).to_pyarrow_table(columns=names)
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def copy_control_tables(parts: Parts) -> None:
    for table in TABLES:
        copy_table(parts.session, parts.settings.control_copies_path, table)


@pytest.fixture(scope="module")
def published(parts: Parts) -> Parts:
    """A master with links, a conflict that was accepted, an accepted gap and baselines."""
    sold = receipt("1", 2, at(MONDAY, 10, 5), 200)
    send(parts.settings, "traffic", [interval("1", "door", at(MONDAY, 10), 3)])
    parts.append(
        receipt("1", 1, at(MONDAY, 10), 100),
        receipt("1", 1, at(MONDAY, 10), 111),
        sold,
        void_of(sold, at(WEDNESDAY, 9)),
        receipt("2", 1, at(WEDNESDAY, 9), 50),
    )
    parts.rebuild("full", [*FAMILIES.values()])
    accept(parts.session, till_conflicts(parts.session), "looked at", datetime.now(UTC))
    [*_] = make_snapshots(parts.session, lambda: datetime.now(UTC), MONDAY)
    copy_control_tables(parts)
    return parts


def test_without_a_loss_nothing_is_changed(published: Parts) -> None:
    before = registers(published)

    report = recover(published.session, published.settings)

    assert (report.lost, registers(published)) == ([], before)


def test_lost_tables_are_written_again_from_the_master_and_the_copies(published: Parts) -> None:
    before, cells = registers(published), published.stage("full").cells
    [conflict] = till_conflicts(published.session)
    baselines = published.session.execute("SELECT * FROM baseline_snapshot").all()
    empty_tables(published.session)

    report = recover(published.session, published.settings)
    rebuilt = published.stage("full", [*FAMILIES.values()])
    restored = restore_baselines(published.session, published.settings)

    assert report.lost == ["Cassandra"] and before["linked_record"] and len(cells) == 3
    assert registers(published) == before
    assert rebuilt.cells == cells
    # Above all tokens of before: whoever has seen those must not take the new ones for older.
    assert rebuilt.report.generation > 1_000
    assert till_conflicts(published.session) == [conflict] and conflict.accepted == 1
    found = published.session.execute("SELECT * FROM baseline_snapshot").all()
    assert restored == len(found) == len(baselines) > 0
    assert {(row.first_day, row.made_at) for row in found} == {
        (row.first_day, row.made_at) for row in baselines
    }


def test_new_logs_go_on_where_the_master_ends(published: Parts) -> None:
    held, cells = coordinates(published), published.stage().cells
    empty_topics(published.settings)
    # The till goes on selling before anybody has noticed.
    early = receipt("1", 7, at(WEDNESDAY, 11), 700)
    send(published.settings, "sales", [early])
    with pytest.raises(DataLoss, match="tally recover"):
        published.append()

    report = recover(published.session, published.settings)
    # A copy of an old receipt, and one of the early ones, beside a new one.
    published.append(receipt("1", 1, at(MONDAY, 10), 100), early, receipt("1", 8, at(MONDAY, 12)))
    stage = published.stage()

    assert report.lost == [f"topic {topic}" for topic in FAMILIES]
    assert (report.resent, report.lost_records, read_gaps(published.session)) == (1, 0, [])
    now = coordinates(published)
    assert len(set(now)) == len(now) == len(held) + 4 and {*held} < {*now}
    changed = {
        ("1", at(WEDNESDAY, 11)): (1, 1, 700, 0, 0),
        ("1", at(MONDAY, 12)): (1, 1, 100, 0, 0),
    }
    assert stage.cells == {**cells, **changed}
    partition = next(number for topic, number, _ in held if topic == "sales")
    table = DeltaTable(str(published.settings.master_path))
    until = max(at for topic, number, at in held if (topic, number) == ("sales", partition)) + 1
    assert read_log_starts(table, "sales", partition) == [until]


def test_what_a_layer_had_read_and_the_master_lacks_is_an_accepted_gap(published: Parts) -> None:
    [(partition, offset)] = send(published.settings, "sales", [receipt("1", 9, at(MONDAY, 13))])
    published.session.execute(
        "INSERT INTO speed_progress (family, partition, until) VALUES ('sales', %s, %s)",
        [partition, offset + 1],
    )
    empty_topics(published.settings)

    report = recover(published.session, published.settings)
    [gap] = read_gaps(published.session)
    [place] = send(published.settings, "sales", [receipt("1", 9, at(MONDAY, 13))])

    assert (gap.topic, gap.partition, gap.from_offset, gap.until_offset) == (
        *("sales", partition),
        *(offset, offset + 1),
    )
    assert (report.lost_records, place) == (1, (partition, offset + 1))
    published.append()
    assert ("sales", partition, offset + 1) in coordinates(published)


def test_another_writer_is_refused_before_anything_is_deleted(
    published: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_topics(published.settings)
    fill = logs._fill
    others = [receipt("1", number, at(MONDAY, 9)) for number in (101, 102)]
    of_others = partition_number("1", published.settings.partitions)

    def fill_beside_another(settings: Any, place: Any, count: int) -> None:
        fill(settings, place, count // 2)
        if place == ("sales", of_others):
            send(published.settings, "sales", others)
        fill(settings, place, count - count // 2)

    monkeypatch.setattr(logs, "_fill", fill_beside_another)

    with pytest.raises(StackError, match="something else writes to it"):
        recover(published.session, published.settings)
    monkeypatch.undo()
    report = recover(published.session, published.settings)

    assert report.resent == len(others)
    # As many empty records as others had come between lie behind the start: they are no events.
    sent = [record.value() for record in read_to_end(published.settings, ["sales"])]
    assert len([value for value in sent if value]) == len(others)


def test_without_a_master_there_is_nothing_to_recover_from(published: Parts, tmp_path: Any) -> None:
    empty = published.settings.model_copy(update={"home": tmp_path})

    with pytest.raises(TallyError, match="restore a backup"):
        recover(published.session, empty)


def test_copies_keep_what_cassandra_has_lost(published: Parts) -> None:
    folder = published.settings.control_copies_path
    before = {table.name: copy_table(published.session, folder, table) for table in TABLES}
    empty_tables(published.session)

    after = {table.name: copy_table(published.session, folder, table) for table in TABLES}

    assert before == after and all(before.values())
