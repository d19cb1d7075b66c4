"""Tables of an earlier release: refused, then migrated; and two that change tables at once."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra.cluster import Session

from ops import migrations, provision
from ops.migrations import Migration, find_pending, list_migrations, lock_schema
from ops.upgrade.run import find_changes
from runtime.connect import cassandra_session
from schemas import loader
from tally.config.settings import Settings
from tally.errors import StackError
from tests.conftest import made_keyspace


@pytest.fixture
def own(cassandra: str, settings: Settings, tmp_path: Path) -> Iterator[Settings]:
    """Settings of a keyspace of the test's own, which has all tables."""
    with made_keyspace(settings) as session:
        yield settings.model_copy(update={"keyspace": session.keyspace, "home": tmp_path})


@pytest.fixture
def session(own: Settings) -> Iterator[Session]:
    with cassandra_session(own) as opened:
        yield opened


def test_tables_made_new_have_all_migrations(own: Settings, session: Session) -> None:
    rows = session.execute("SELECT number, checksum FROM schema_migration").all()

    assert {(row.number, row.checksum) for row in rows} == {
        (migration.number, migration.checksum) for migration in list_migrations()
    }
    assert find_changes(own) == []


def test_earlier_tables_are_refused_until_they_are_migrated(
    own: Settings, session: Session
) -> None:
    session.execute("TRUNCATE schema_migration")

    with pytest.raises(StackError, match="tally upgrade --check"):
        provision.create_tables(own)
    changes = find_changes(own)
    for migration in find_pending(session, ["answered_span"]):
        migrations.apply_migration(session, migration)
        # After a kill in the middle of it everything is done once more.
        migrations.apply_migration(session, migration)
    provision.create_tables(own)

    assert changes == [
        f"tables: migration {entry.number}, {entry.title}" for entry in list_migrations()
    ]
    found = session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [own.keyspace]
    )
    expected = {loader.table_name(statement) for statement in loader.table_statements()}
    assert {row.table_name for row in found} == expected
    assert find_changes(own) == []


def test_tables_of_before_the_first_release_or_of_a_later_one_are_refused(
    own: Settings, session: Session
) -> None:
    later = Migration(999, "of another day", "")
    migrations.note_applied(session, later)
    with pytest.raises(StackError, match="of a later release"):
        provision.create_tables(own)

    session.execute("TRUNCATE schema_migration")
    session.execute("DROP TABLE answered_span")
    with pytest.raises(StackError, match="older than those of 0"):
        find_changes(own)


def test_a_migration_that_was_changed_since_is_refused(own: Settings, session: Session) -> None:
    session.execute(
        "UPDATE schema_migration SET checksum = 'other' WHERE scope = 'tables' AND number = 1"
    )

    with pytest.raises(StackError, match="migration 1 was applied with another text"):
        provision.create_tables(own)


def test_of_two_at_once_one_waits(
    own: Settings, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.execute("DROP TABLE till_finding")
    second = threading.Thread(target=provision.create_tables, args=[own])
    with lock_schema(session):
        second.start()
        second.join(3)
        has_waited = second.is_alive()
        tables = session.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [own.keyspace]
        )
        assert "till_finding" not in {row.table_name for row in tables}
    second.join(120)

    assert has_waited and not second.is_alive()
    assert "the tables are being changed by" in capsys.readouterr().err
    session.execute("SELECT family FROM till_finding")
