"""Numbered changes of tables, and which of them a keyspace has.

A migration is a file of schemas/migrations: what is dropped or emptied there is created, or written
again, by what follows. Once applied it never changes: its checksum is noted.
"""

import os
import socket
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from uuid import uuid4

from cassandra.cluster import Session

from runtime.process.output import print_note
from schemas import loader
from tally.errors import StackError

_SCOPE = "tables"
# A table of 0.1.0-rc1, the first release that can be upgraded, and of none before it.
_FIRST_RELEASE = ("0.1.0-rc1", "answered_span")
# Longer than any statement takes; a process that dies leaves the lock for so long.
_LOCK_SECONDS = 300
_WAIT_SECONDS = 3 * _LOCK_SECONDS
_POLL_SECONDS = 0.5
_TAKE = "INSERT INTO schema_lock (name, holder) VALUES (%s, %s) IF NOT EXISTS USING TTL %s"
_FREE = "DELETE FROM schema_lock WHERE name = %s IF holder = %s"


@dataclass(frozen=True)
class Migration:
    """One change of tables: its number, title and CQL statements."""

    number: int
    title: str
    text: str

    @property
    def checksum(self) -> str:
        """Of its text, as it is noted once it is applied."""
        return sha256(self.text.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        """Its statements; one about batch tables stands for one of each family."""
        tables = [f"batch_{name}_15min" for name in loader.sources()]
        for statement in loader.split_statements(self.text):
            if "{batch_table}" in statement:
                yield from (statement.replace("{batch_table}", table) for table in tables)
            else:
                yield statement


def list_migrations() -> list[Migration]:
    """All migrations, in their order."""
    found = []
    for file in sorted((loader.FOLDER / "migrations").glob("*.cql")):
        number, _, title = file.stem.partition("-")
        text = file.read_text("utf-8")
        found.append(Migration(int(number), title.replace("-", " "), text))
    return found


def find_pending(session: Session, tables: Collection[str]) -> Sequence[Migration]:
    """The migrations that a keyspace with these tables lacks.

    Raises StackError for tables of a later release, of one before the first that can be upgraded,
    or of a migration that has changed since.
    """
    rows = session.execute(
        "SELECT number, checksum FROM schema_migration WHERE scope = %s", [_SCOPE]
    )
    applied = {row.number: row.checksum for row in rows}
    known = {migration.number: migration for migration in list_migrations()}
    if unknown := applied.keys() - known.keys():
        raise StackError(f"the tables are of a later release (migration {max(unknown)}): use it")
    for number, checksum in applied.items():
        if known[number].checksum != checksum:
            raise StackError(f"migration {number} was applied with another text; restore its file")
    release, table = _FIRST_RELEASE
    if not applied and table not in tables:
        raise StackError(
            f"the tables are older than those of {release}, which this release can upgrade;"
            " begin in another TALLY_HOME"
        )
    return [migration for number, migration in sorted(known.items()) if number not in applied]


def note_applied(session: Session, migration: Migration) -> None:
    """Note that the keyspace has the migration."""
    session.execute(
        "INSERT INTO schema_migration (scope, number, title, checksum, applied_at)"
        " VALUES (%s, %s, %s, %s, %s)",
        [_SCOPE, migration.number, migration.title, migration.checksum, datetime.now(UTC)],
    )


def apply_migration(session: Session, migration: Migration) -> None:
    """Execute the migration's statements, which may have been executed before, and note it."""
    for statement in migration.statements():
        session.execute(statement, timeout=_LOCK_SECONDS)
    note_applied(session, migration)


@contextmanager
def lock_schema(session: Session) -> Iterator[None]:
    """Change tables alone: another process waits until this one has ended.

    Raises StackError when it does not get the lock in a quarter of an hour.
    """
    holder = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
    deadline, has_waited = time.monotonic() + _WAIT_SECONDS, False
    values = [_SCOPE, holder, _LOCK_SECONDS]
    while not (answer := session.execute(_TAKE, values).one())[0]:
        if time.monotonic() > deadline:
            raise StackError(f"the tables are being changed by {answer.holder}; try again later")
        if not has_waited:
            print_note(f"the tables are being changed by {answer.holder}; waiting")
            has_waited = True
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        session.execute(_FREE, [_SCOPE, holder])
