"""`tally upgrade`: what an upgrade would change, and the upgrade itself."""

from collections.abc import Mapping

from cassandra.cluster import Session

from ops import provision
from ops.migrations import apply_migration, find_pending, lock_schema
from ops.recovery import recover
from ops.upgrade.master import is_of_earlier_release, upgrade_master
from runtime.connect import cassandra_session
from runtime.process.output import print_note
from runtime.records.control_copies import TABLES, copy_table
from tally.config.settings import Settings


def find_changes(settings: Settings) -> list[str]:
    """What an upgrade would change, a line each; empty for data of this release.

    Raises StackError for data that cannot be upgraded.
    """
    with cassandra_session(settings, "") as session:
        tables = provision.prepare_keyspace(session, settings)
        pending = find_pending(session, tables) if tables else ()
    changes = [f"tables: migration {entry.number}, {entry.title}" for entry in pending]
    if is_of_earlier_release(settings.master_path):
        changes.append("master dataset: its records are written in today's layout")
    return changes


def upgrade(settings: Settings, environment: Mapping[str, str]) -> None:
    """Bring data of an earlier release to this one; started again, it goes on.

    Nothing but Kafka and Cassandra may run. Raises TallyError when a step fails.
    """
    with cassandra_session(settings, "") as session:
        tables = provision.prepare_keyspace(session, settings)
        with lock_schema(session):
            _migrate_tables(session, settings, tables)
    provision.create_tables(settings)
    if is_of_earlier_release(settings.master_path):
        records = upgrade_master(settings.master_path)
        print_note(f"master dataset: {records:,} records in today's layout")
    recover(environment)


def _migrate_tables(session: Session, settings: Settings, tables: set[str]) -> None:
    pending = find_pending(session, tables) if tables else ()
    if pending:
        # What people decided is brought back with everything that follows from the master.
        for table in TABLES:
            copy_table(session, settings.control_copies_path, table)
    for migration in pending:
        apply_migration(session, migration)
        print_note(f"tables: migration {migration.number}, {migration.title}")
