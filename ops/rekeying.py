"""Migration of the rows of tables whose primary key differs from that of an earlier version.

Cassandra cannot alter a key. The rows are copied to a second table while the table is re-created; a
process that dies on the way continues at the same step when it runs again.
"""

from collections.abc import Iterable, Mapping, Sequence

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows
from schemas import loader

_BESIDE = "_rekeyed"
# The write time of a row without any column but its key.
_EARLIEST = 1

Keys = Mapping[str, tuple[str, ...]]


def read_primary_keys(session: Session, keyspace: str) -> Keys:
    """The columns of each table's primary key, in key order."""
    rows = session.execute(
        "SELECT table_name, column_name, kind, position FROM system_schema.columns"
        " WHERE keyspace_name = %s",
        [keyspace],
    )
    found: dict[str, list[tuple[bool, int, str]]] = {}
    for table, column, kind, position in rows:
        if kind in ("partition_key", "clustering"):
            found.setdefault(table, []).append((kind == "clustering", position, column))
    return {table: _names(key) for table, key in found.items()}


def _names(key: Iterable[tuple[bool, int, str]]) -> tuple[str, ...]:
    return tuple(name for *_, name in sorted(key))


def rekey(session: Session, statement: str, keys: Keys) -> bool:
    """Give the table the key of this CREATE TABLE; returns whether it had another key.

    No writer may use the table meanwhile: Tally's services must not be running.
    """
    name = loader.table_name(statement)
    beside = name + _BESIDE
    has_other_key = keys.get(name, loader.table_key(statement)) != loader.table_key(statement)
    if has_other_key:
        session.execute(statement.replace(f" {name} ", f" {beside} ", 1))
        _copy(session, name, beside)
        session.execute(f"DROP TABLE {name}")
    # All rows are in the second table: the table has the new key by now, or does not exist.
    if has_other_key or beside in keys:
        session.execute(statement)
        _copy(session, beside, name)
        session.execute(f"DROP TABLE {beside}")
    return has_other_key or beside in keys


def _copy(session: Session, source: str, target: str) -> None:
    """Copy every row with its write time, so that a repeated copy changes nothing."""
    known = session.cluster.metadata.keyspaces[session.keyspace].tables
    names = [name for name in known[source].columns if name in known[target].columns]
    key = {column.name for column in known[source].primary_key}
    columns = ", ".join(f'"{name}"' for name in names)
    times = ", ".join(f'WRITETIME("{name}")' for name in names if name not in key)
    marks = ", ".join("?" * len(names))
    insert = f"INSERT INTO {target} ({columns}) VALUES ({marks}) USING TIMESTAMP ?"
    rows = session.execute(f"SELECT {columns}, {times} FROM {source}")
    write_rows(session, insert, (_row_with_time(row, len(names)) for row in rows))


def _row_with_time(row: Sequence[object], columns: int) -> Sequence[object]:
    """The values of a row, and the write time of the newest of them."""
    times = [time for time in row[columns:] if isinstance(time, int)]
    return *row[:columns], max(times, default=_EARLIEST)
