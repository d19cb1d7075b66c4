"""Of each table and folder with a retention what is older goes and what is younger stays."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cassandra.cluster import Session

from batch_layer.views.sweep_tables import sweep_tables
from ops.provision import topic_configuration
from runtime.connect import cassandra_session
from schemas import loader
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import BadQuery
from tests.conftest import empty_tables

NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)
KEPT_DAYS = 100
YOUNG, OLD = NOW.date() - timedelta(days=100), NOW.date() - timedelta(days=101)


@pytest.fixture
def session(own_settings: Settings) -> Iterator[Session]:
    with cassandra_session(own_settings) as opened:
        empty_tables(opened)
        yield opened


@pytest.fixture
def kept_settings(own_settings: Settings, session: Session) -> Settings:
    return own_settings.model_copy(update={"history_days": KEPT_DAYS})


def insert(session: Session, table: str, timestamp: int | None = None, **columns: Any) -> None:
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    at = "" if timestamp is None else f" USING TIMESTAMP {timestamp}"
    statement = session.prepare(f"INSERT INTO {table} ({names}) VALUES ({marks}){at}")
    session.execute(statement, [*columns.values()])


def values(session: Session, table: str, column: str) -> set[Any]:
    return {row[0] for row in session.execute(f"SELECT {column} FROM {table}")}


def receipt(session: Session, day: date) -> None:
    insert(
        session,
        "raw_pos_transaction_byday",
        timestamp=-7,
        year_day=day.isoformat(),
        operation_id="1",
        happened_at=datetime(day.year, day.month, day.day, 10),
        vendor_fiscal_module="1",
        transaction_id="1",
        numbering_epoch="0",
        event_id=f"pos:{day}",
    )


def alert(session: Session, day: date, alert_id: str, *, is_open: bool = False) -> None:
    raised_at = datetime(day.year, day.month, day.day, 10)
    place = {"store_id": "1", "alert_id": alert_id}
    insert(session, "alerts_byday", 1, day=day, raised_at=raised_at, message="{}", **place)
    insert(session, "alert_life", 1, alert_id=alert_id, told_id=alert_id, state="c", message="{}")
    if is_open:
        insert(session, "alerts_open", 1, message="{}", **place)


def test_receipts_and_alerts_of_before_go_and_a_question_about_them_is_refused(
    session: Session, kept_settings: Settings
) -> None:
    for day in (OLD, YOUNG):
        receipt(session, day)
        alert(session, day, f"of {day}")
    alert(session, OLD, "open", is_open=True)

    removed = sweep_tables(session, kept_settings, NOW)

    assert values(session, "raw_pos_transaction_byday", "year_day") == {YOUNG.isoformat()}
    assert values(session, "alerts_byday", "alert_id") == {f"of {YOUNG}"}
    assert values(session, "alert_life", "alert_id") == {f"of {YOUNG}", "open"}
    assert (removed["raw_pos_transaction_byday"], removed["alert_life"]) == (1, 1)
    begin = datetime(YOUNG.year, YOUNG.month, YOUNG.day, tzinfo=UTC)
    assert asyncio.run(refused(kept_settings, begin)) is None
    error = asyncio.run(refused(kept_settings, begin - timedelta(seconds=1)))
    assert "TALLY_HISTORY_DAYS" in str(error)


async def refused(kept_settings: Settings, start: datetime) -> BadQuery | None:
    views = ViewReader(kept_settings)
    try:
        await views.refuse_lost_history(start, "receipts")
    except BadQuery as error:
        return error
    finally:
        views.close()
    return None


def test_without_the_setting_they_are_kept_for_good(
    session: Session, own_settings: Settings
) -> None:
    receipt(session, date(1999, 1, 1))

    sweep_tables(session, own_settings, NOW)

    assert values(session, "raw_pos_transaction_byday", "year_day") == {"1999-01-01"}
    assert asyncio.run(refused(own_settings, datetime(1990, 1, 1, tzinfo=UTC))) is None


def test_findings_that_no_record_shows_go_unless_a_person_accepted_them(
    session: Session, kept_settings: Settings
) -> None:
    for till, conflicts in (("gone", 0), ("there", 2), ("accepted", 0)):
        insert(
            session,
            "till_finding",
            timestamp=5,
            family="sales",
            day=OLD,
            store_id="1",
            till_id=till,
            generation=5,
            records=9,
            conflicts=conflicts,
        )
    session.execute(
        "UPDATE till_finding SET accepted = 1 WHERE family = 'sales' AND day = %s"
        " AND store_id = '1' AND till_id = 'accepted'",
        [OLD],
    )

    removed = sweep_tables(session, kept_settings, NOW)
    # A later rebuild finds it again: its row is not hidden.
    insert(
        session,
        "till_finding",
        timestamp=6,
        family="sales",
        day=OLD,
        store_id="1",
        till_id="gone",
        generation=6,
        records=9,
        conflicts=1,
    )

    assert removed["till_finding"] == 1
    assert values(session, "till_finding", "till_id") == {"gone", "there", "accepted"}


def test_spans_of_generations_that_nobody_asks_for_go(
    session: Session, kept_settings: Settings
) -> None:
    serving = {
        "epoch": 1,
        "table_version": 1,
        "covered_from": NOW,
        "covered_until": NOW,
        "flipped_at": NOW,
        "pinned": {0: 1},
        "through": {0: NOW},
    }
    insert(session, "batch_pointer", family="wifi", day=OLD, generation=7, **serving)
    insert(session, "batch_pointer_history", family="wifi", day=OLD, generation=4, flipped_at=NOW)
    for generation in (2, 4, 7, 9):
        insert(
            session, "answered_span", store_id="1", family="wifi", day=OLD, generation=generation
        )

    removed = sweep_tables(session, kept_settings, NOW)

    assert removed["answered_span"] == 1
    # What once served, what serves, and what a run is about to publish.
    assert values(session, "answered_span", "generation") == {4, 7, 9}


def test_checkpoints_that_were_set_aside_go_after_a_time(
    session: Session, kept_settings: Settings, tmp_path: Path
) -> None:
    folder = kept_settings.checkpoint("views").parent
    at = int((NOW - timedelta(days=kept_settings.as_of_days)).timestamp())
    names = ["views", f"views-before-recovery-{at}", f"master-before-gap-{at - 1}", "a-before-b-c"]
    for name in names:
        (folder / name / "offsets").mkdir(parents=True)

    removed = sweep_tables(session, kept_settings, NOW)

    assert removed["checkpoints"] == 1
    assert {path.name for path in folder.iterdir()} == {*names} - {names[2]}


@pytest.mark.parametrize("kind", loader.retention()["topics"])
def test_topics_are_kept_as_the_file_says(kind: str, own_settings: Settings) -> None:
    keeps = loader.retention()["topics"][kind]["keeps"]
    hour = 3_600_000
    wanted = {
        "canonical_retention_hours": own_settings.canonical_retention_hours * hour,
        "an hour": hour,
    }.get(keeps, -1 if isinstance(keeps, str) else keeps * 24 * hour)

    found = topic_configuration(kind, own_settings)

    assert found["retention.ms"] == str(wanted)
    assert (found.get("cleanup.policy") == "compact") == (kind == "compacted")
