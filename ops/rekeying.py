"""Tables whose primary key was another one in an earlier version: their rows go over.

Cassandra alters no key. The rows lie in a table beside it while the table is made anew; who dies
on the way begins again where he was.
"""

from collections.abc import Iterable, Mapping, Sequence

from cassandra.cluster import Session

from runtime.writes import write_rows
from schemas import loader

_BESIDE = "_rekeyed"
# Of a row that is nothing but its key.
_EARLIEST = 1

Keys = Mapping[str, tuple[str, ...]]


def keys_of(session: Session, keyspace: str) -> Keys:
    """The columns of each table's primary key, in their order."""
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
    """Whether the table of this CREATE TABLE had another key; if so it has this one now.

    Nobody may write to the table meanwhile: Tally's services are not running.
    """
    name = loader.table_name(statement)
    beside = name + _BESIDE
    has_other_key = keys.get(name, loader.table_key(statement)) != loader.table_key(statement)
    if has_other_key:
        session.execute(statement.replace(f" {name} ", f" {beside} ", 1))
        _copy(session, name, beside)
        session.execute(f"DROP TABLE {name}")
    # All rows are beside: this table's key is the new one, or it is not there.
    if has_other_key or beside in keys:
        session.execute(statement)
        _copy(session, beside, name)
        session.execute(f"DROP TABLE {beside}")
    return has_other_key or beside in keys


def _copy(session: Session, source: str, target: str) -> None:
    """Every row with the time at which it was written; copied again it is the same."""
    known = session.cluster.metadata.keyspaces[session.keyspace].tables
    names = [name for name in known[source].columns if name in known[target].columns]
    key = {column.name for column in known[source].primary_key}
    columns = ", ".join(f'"{name}"' for name in names)
    times = ", ".join(f'WRITETIME("{name}")' for name in names if name not in key)
    marks = ", ".join("?" * len(names))
    insert = f"INSERT INTO {target} ({columns}) VALUES ({marks}) USING TIMESTAMP ?"
    rows = session.execute(f"SELECT {columns}, {times} FROM {source}")
    write_rows(session, insert, (_written(row, len(names)) for row in rows))


def _written(row: Sequence[object], columns: int) -> Sequence[object]:
    """The values of a row, and when the newest of them was written."""
    times = [at for at in row[columns:] if isinstance(at, int)]
    return *row[:columns], max(times, default=_EARLIEST)
