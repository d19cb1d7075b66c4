"""One story of rebuilds on the real parts: first all days, then what became dirty, then
everything again, crashes and races."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from batch_layer.views.compute.scope import RebuildRequest
from batch_layer.views.publish.pointer import PointerTable
from batch_layer.views.publish.written_rows import write_generation
from batch_layer.views.rebuild import Report, plan_all
from ops.audit.ledgers import dead_letters
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.records.gaps import declare_backfill
from runtime.registry.sources import FAMILIES, SALES
from tally.errors import Superseded, TallyError
from tally.time.windows import window_start
from tests.integration.batch.parts import Parts, Stage, at, last_token, topic_values
from tests.support.sources.canonical import interval, receipt, send

MONDAY, TUESDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 7), date(2017, 3, 8)


@pytest.fixture(scope="module")
def parts(
    spark: SparkSession, own_site: Site, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Parts]:
    home = tmp_path_factory.mktemp("master")
    settings = own_site.settings.model_copy(update={"home": home, "ingest_trigger_seconds": 0.0})
    # An instant before anything arrives: of today nothing is claimed, whenever the story is told.
    begun = window_start(datetime.now(UTC))
    with cassandra_session(settings) as session, pytest.MonkeyPatch.context() as patched:
        patched.setattr("batch_layer.views.compute.plan.read_broker_time", lambda _settings: begun)
        for family in FAMILIES:
            declare_backfill(session, family, (MONDAY, WEDNESDAY), "the story")
        yield Parts(spark, session, settings)


@pytest.fixture(scope="module")
def first(parts: Parts) -> Stage:
    """All days; nothing happened on Tuesday; one receipt came twice."""
    same = receipt("1", 2, at(MONDAY, 10, 5), 200)
    send(parts.settings, "traffic", [interval("1", "door", at(MONDAY, 10), 3)])
    parts.append(
        receipt("1", 1, at(MONDAY, 10), 100),
        same,
        same,
        receipt("1", 3, at(MONDAY, 11), 300),
        receipt("2", 1, at(WEDNESDAY, 9), 50),
    )
    return parts.stage("full")


@pytest.fixture(scope="module")
def second(parts: Parts, first: Stage) -> Stage:
    """What became dirty: a late receipt, a conflict in its own window, and one whose first copy
    lies on another day."""
    late, conflict = receipt("1", 4, at(MONDAY, 10, 7), 400), receipt("1", 1, at(MONDAY, 10), 111)
    parts.append(late, conflict, receipt("1", 3, at(WEDNESDAY, 9), 333))
    return parts.stage()


@pytest.fixture(scope="module")
def third(parts: Parts, second: Stage) -> Stage:
    """Everything again, from the same records."""
    return parts.stage("full")


def test_first_rebuild_serves_every_window_and_the_day_without_records(first: Stage) -> None:
    assert first.days == {MONDAY: 1, TUESDAY: 1, WEDNESDAY: 1}
    assert first.cells == {
        ("1", at(MONDAY, 10)): (2, 2, 300, 0, 0),
        ("1", at(MONDAY, 11)): (1, 1, 300, 0, 0),
        ("2", at(WEDNESDAY, 9)): (1, 1, 50, 0, 0),
    }
    # The traffic has one row more.
    assert (
        first.report.days,
        first.report.rows,
        first.report.changed_windows,
        first.report.generation,
    ) == (3, 4, 0, 1)


def test_dirty_rebuild_publishes_only_the_days_of_new_records(second: Stage) -> None:
    assert second.days == {MONDAY: 2, TUESDAY: 1, WEDNESDAY: 2}


def test_conflict_on_another_day_counts_there_as_event_but_not_in_the_values(second: Stage) -> None:
    assert second.cells == {
        ("1", at(MONDAY, 10)): (3, 3, 700, 0, 0),
        ("1", at(MONDAY, 11)): (1, 1, 300, 0, 0),
        ("1", at(WEDNESDAY, 9)): (1, 0, 0, 1, 333),
        ("2", at(WEDNESDAY, 9)): (1, 1, 50, 0, 0),
    }


def test_full_rebuild_gives_the_rows_of_the_dirty_one_under_a_new_generation(
    second: Stage, third: Stage
) -> None:
    assert third.days == {MONDAY: 3, TUESDAY: 3, WEDNESDAY: 3}
    assert (third.cells, third.report.changed_windows) == (second.cells, 0)


def test_rebuild_finds_the_classes_that_an_earlier_one_has_compiled(third: Stage) -> None:
    print(f"{third.compiled} classes compiled by the third rebuild of the session")
    # With the size of cache that Spark has by itself they are 204.
    assert third.compiled < 60


def test_each_changed_window_is_restated_once(parts: Parts, third: Stage) -> None:
    told = [msgspec.json.decode(value) for value in topic_values(parts.settings, "restatements")]

    found = {
        (
            notice["store_id"],
            notice["window_start"],
            notice["earlier_generation"],
            notice["generation"],
        )
        for notice in told
    }
    assert (
        found == {("1", "2017-03-06T10:00:00.000Z", 1, 2), ("1", "2017-03-08T09:00:00.000Z", 1, 2)}
        and len(told) == 2
    )


def test_conflicts_are_dead_letters_with_their_own_coordinates(parts: Parts, third: Stage) -> None:
    letters = dead_letters(parts.settings)

    assert sorted((letter.reason, letter.topic) for letter in letters) == [
        ("conflict", "sales"),
        ("conflict", "sales"),
    ]


def test_ledger_of_a_generation_gives_each_record_one_fate(parts: Parts, third: Stage) -> None:
    rows = list(parts.session.execute("SELECT * FROM batch_ledger WHERE family = 'sales'"))

    sums = {
        name: sum(getattr(row, name) for row in rows)
        for name in ("committed", "counted", "duplicate", "conflict", "erased", "unreadable")
    }
    assert sums == {
        "committed": 8,
        "counted": 5,
        "duplicate": 1,
        "conflict": 2,
        "erased": 0,
        "unreadable": 0,
    }


def test_first_and_last_day_of_each_store_are_known(parts: Parts, third: Stage) -> None:
    rows = parts.session.execute(
        "SELECT store_id, first_day, last_day FROM store_activity WHERE family = 'sales'"
    )

    assert {tuple(map(str, row)) for row in rows} == {
        ("1", "2017-03-06", "2017-03-08"),
        ("2", "2017-03-08", "2017-03-08"),
    }


def test_nothing_is_dirty_after_a_rebuild(parts: Parts, third: Stage) -> None:
    report = parts.rebuild()

    assert (report.days, report.rows, report.generation, parts.days()) == (0, 0, 0, third.days)


def test_plan_names_days_with_reasons_and_takes_no_token(parts: Parts, third: Stage) -> None:
    tokens = last_token(parts.session)

    parts.append(receipt("9", 1, at(TUESDAY, 9), 50))
    plan = plan_all(parts.session, parts.settings, RebuildRequest(), [SALES])

    assert [(line.day, line.reason) for line in plan] == [(TUESDAY, "records")]
    assert (last_token(parts.session), parts.days()) == (tokens, third.days)


def test_crash_between_write_and_flip_leaves_readers_on_the_old_generation(
    parts: Parts, third: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(PointerTable, "flip", crash)
        parts.rebuild("full")

    assert (parts.days(), parts.cells(parts.days())) == (third.days, third.cells)


def test_full_rebuild_leaves_out_what_was_published_while_it_wrote(
    parts: Parts, third: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip, overtaking = PointerTable.flip, list[Report]()

    def flip_late(table: PointerTable, *arguments: Any) -> list[date]:
        monkeypatch.setattr(PointerTable, "flip", flip)
        # It publishes Tuesday, which has a record more.
        overtaking.append(parts.rebuild("dirty"))
        return flip(table, *arguments)

    monkeypatch.setattr(PointerTable, "flip", flip_late)
    report = parts.rebuild("full")

    assert (overtaking[0].days, report.days, report.skipped) == (1, 2, 1)
    newer, older = overtaking[0].generation, report.generation
    assert newer > older
    assert parts.days() == {MONDAY: older, TUESDAY: newer, WEDNESDAY: older}


def test_dirty_rebuild_of_days_that_others_have_published_is_superseded(
    parts: Parts, third: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip, overtaking = PointerTable.flip, list[Report]()

    def flip_late(table: PointerTable, *arguments: Any) -> list[date]:
        monkeypatch.setattr(PointerTable, "flip", flip)
        overtaking.append(parts.rebuild("dirty"))
        return flip(table, *arguments)

    parts.append(receipt("9", 2, at(TUESDAY, 9), 50))
    monkeypatch.setattr(PointerTable, "flip", flip_late)
    with pytest.raises(Superseded, match="other runs have published all of its days"):
        parts.rebuild("dirty")

    assert parts.days()[TUESDAY] == overtaking[0].generation


def test_rows_that_cassandra_does_not_hold_as_they_were_written_are_not_published(
    parts: Parts, third: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = parts.days()

    def write_and_lose(*arguments: Any) -> Any:
        written = write_generation(*arguments)
        parts.session.execute(
            "UPDATE batch_sales_15min SET gross_minor = 49 WHERE store_id = '2' AND day = %s AND"
            " generation = %s AND window_start = %s AND currency = 'USD' AND dim = '*' AND"
            " dim_value = ''",
            [WEDNESDAY, arguments[2].number, at(WEDNESDAY, 9)],
        )
        return written

    monkeypatch.setattr("batch_layer.views.publish.publication.write_generation", write_and_lose)
    with pytest.raises(
        TallyError,
        match=r"store 2 2017-03-08T09:00:00.000Z has events -1, receipts -1, gross_minor -50",
    ):
        parts.rebuild("full")

    assert parts.days() == before
