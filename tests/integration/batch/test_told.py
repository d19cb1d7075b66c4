"""What a rebuild tells and notes beside its rows: each thing once, also when it dies on the way."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import msgspec
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import SparkSession

from batch_layer.master.extent import MasterExtent, read_extent
from batch_layer.views.publish.announcements import Announcements
from batch_layer.views.publish.pointer import PointerTable
from ops.conflicts import TillConflicts, accept, till_conflicts
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.records.gaps import declare_backfill
from runtime.registry.sources import TRAFFIC
from tests.integration.batch.parts import Parts, at, topic_values
from tests.support.sources.canonical import interval, receipt, send

WEEK = MONDAY, TUESDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 7), date(2017, 3, 8)


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    settings = own_site.settings.model_copy(
        update={"home": tmp_path_factory.mktemp("told"), "ingest_trigger_seconds": 0.0}
    )
    with cassandra_session(settings) as session:
        parts = Parts(spark, session, settings)
        parts.append(
            *(
                receipt("1", number, at(MONDAY, 10), 100, "EUR" if number > 40 else "USD")
                for number in range(60)
            )
        )
        parts.rebuild()
        yield parts


def restatements(parts: Parts) -> Counter[tuple[str, str, int]]:
    told = [msgspec.json.decode(value) for value in topic_values(parts.settings, "restatements")]
    return Counter(
        (notice["store_id"], notice["window_start"], notice["generation"]) for notice in told
    )


def test_restatements_of_a_run_that_died_after_its_flip_are_sent_once_by_the_next(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    parts.append(receipt("1", 100, at(MONDAY, 10, 3)), receipt("1", 101, at(MONDAY, 11)))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Announcements, "send_restatements", die)
        parts.rebuild()
    untold, generation = restatements(parts), parts.days()[MONDAY]

    # The next test shows that a later one sends none of them again.
    parts.rebuild()

    assert untold == Counter()
    assert restatements(parts) == Counter(
        {("1", f"2017-03-06T{hour}:00:00.000Z", generation): 1 for hour in (10, 11)}
    )
    assert (
        list(parts.session.execute("SELECT * FROM restatement_run"))
        == list(parts.session.execute("SELECT * FROM restated_window"))
        == []
    )


def test_restatements_of_a_run_that_died_before_its_flip_are_never_sent(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    before = restatements(parts)
    parts.append(receipt("1", 102, at(MONDAY, 12)))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("batch_layer.views.publish.publication.PointerTable.flip", die)
        parts.rebuild()

    parts.rebuild()
    parts.rebuild()

    told = restatements(parts) - before
    assert told == Counter({("1", "2017-03-06T12:00:00.000Z", parts.days()[MONDAY]): 1})
    # It might have been slow and not dead; after two days it publishes no more.
    assert len(list(parts.session.execute("SELECT * FROM restated_window"))) == 1
    later = datetime.now(UTC) + timedelta(days=3)
    with monkeypatch.context() as patched:
        patched.setattr(
            "batch_layer.views.publish.publication.read_broker_time", lambda _settings: later
        )
        parts.rebuild()
    assert list(parts.session.execute("SELECT * FROM restated_window")) == []


def test_conflict_is_told_once_however_often_its_day_is_rebuilt(parts: Parts) -> None:
    before = len(topic_values(parts.settings, "dead-letters"))
    parts.append(receipt("1", 1, at(MONDAY, 10), 111))
    parts.rebuild()
    parts.append(receipt("1", 2, at(MONDAY, 10), 222))

    # All days are rebuilt: the first conflict's once more.
    parts.rebuild("full")

    assert len(topic_values(parts.settings, "dead-letters")) - before == 2


def test_conflicts_of_a_till_are_noted_until_somebody_has_accepted_so_many(parts: Parts) -> None:
    def of_wednesday() -> list[TillConflicts]:
        return [one for one in till_conflicts(parts.session) if one.day == str(WEDNESDAY)]

    def found() -> list[tuple[str, int, int, bool]]:
        return [(one.store_id, one.records, one.conflicts, one.is_open) for one in of_wednesday()]

    parts.append(*(receipt("1", number, at(WEDNESDAY, 10), 500) for number in range(30)))
    parts.rebuild()
    assert found() == [("1", 30, 30, True)]

    accept(parts.session, of_wednesday(), "tried out", at(WEDNESDAY, 12))
    assert found() == [("1", 30, 30, False)]
    # A rebuild that finds no more leaves them accepted.
    parts.append(receipt("1", 1000, at(WEDNESDAY, 11)))
    parts.rebuild()
    assert found() == [("1", 31, 30, False)]
    parts.append(receipt("1", 1000, at(WEDNESDAY, 11), 600))
    parts.rebuild()
    assert found() == [("1", 32, 31, True)]


def test_currencies_of_a_store_are_noted_with_their_days(parts: Parts) -> None:
    rows = parts.session.execute(
        "SELECT value, first_day, last_day FROM store_axis WHERE family = 'sales' AND"
        " axis = 'currency' AND store_id = '1'"
    )

    assert {tuple(map(str, row)) for row in rows} == {
        ("EUR", "2017-03-06", "2017-03-06"),
        ("USD", "2017-03-06", "2017-03-08"),
    }


def test_traffic_has_no_currency_and_is_rebuilt_all_the_same(parts: Parts) -> None:
    send(parts.settings, "traffic", [interval("1", "door", at(MONDAY, 10), 3)])
    parts.append()

    assert parts.rebuild(families=[TRAFFIC]).rows == 1


def test_declared_days_are_covered_by_the_next_rebuild_and_a_gap_bounds_what_they_claim(
    parts: Parts,
) -> None:
    table = PointerTable(parts.session, "sales")
    undeclared = table.current()[MONDAY]
    declare_backfill(parts.session, "sales", (MONDAY, WEDNESDAY), "the test")
    parts.rebuild()
    declared = table.current()
    insert = (
        "INSERT INTO gap (topic, partition, from_offset, until_offset, first_arrival, last_arrival)"
        " VALUES (%s, 0, 5, 9, %s, %s)"
    )
    parts.session.execute(
        insert,
        ["posTransactionTopic", at(TUESDAY, 12, 10), at(WEDNESDAY, 1)],
    )

    parts.rebuild()

    bounded = table.current()
    assert undeclared.covered_from == undeclared.covered_until == at(MONDAY, 0)
    assert all(
        declared[day].covered_from == at(day, 0) and declared[day].covered_until > at(WEDNESDAY, 23)
        for day in WEEK
    )
    # Monday ends before what was lost.
    assert bounded[MONDAY] == declared[MONDAY]
    assert [bounded[day].covered_until for day in (TUESDAY, WEDNESDAY)] == [at(TUESDAY, 12)] * 2
    assert set(bounded[TUESDAY].through.values()) == {at(TUESDAY, 12, 10)}


def test_unreadable_record_of_the_master_is_told_with_its_coordinates_and_stands_in_the_ledger(
    parts: Parts,
) -> None:
    before = len(topic_values(parts.settings, "dead-letters"))
    now = datetime.now(UTC)
    columns = {
        "source": pa.array(["sales"]),
        "event_date": pa.array([now.date()]),
        "store_id": pa.array([None], pa.string()),
        "event_id": pa.array([None], pa.string()),
        "happened_at": pa.array([None], pa.timestamp("us", "UTC")),
        "fingerprint": pa.array([None], pa.string()),
        "partition": pa.array([3], pa.int32()),
        "offset": pa.array([10**6], pa.int64()),
        "committed_at": pa.array([now], pa.timestamp("us", "UTC")),
        "value": pa.array(["{no json, ann@example.org"]),
        "sender": pa.array([None], pa.string()),
    }
    held = read_extent(parts.settings.master_path)
    until = {**held.until, "sales": {**held.until["sales"], 3: 10**6 + 1}}
    after = MasterExtent(held.topic_ids, until, held.fingerprints)
    numbers = CommitProperties(app_transactions=after.transactions(held, 1))
    write_deltalake(
        str(parts.settings.master_path), pa.table(columns), mode="append", commit_properties=numbers
    )

    parts.rebuild("full")
    parts.rebuild("full")

    letters = topic_values(parts.settings, "dead-letters")
    lines = parts.session.execute("SELECT unreadable FROM batch_ledger WHERE family = 'sales'")
    assert len(letters) == before + 1 and b"{no json, [redacted]" in letters
    assert sum(line.unreadable for line in lines) == 1
