"""What each layer's tables hold, in the shape of the plain oracle."""

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from cassandra.cluster import Session

from tests.support.oracles import pos_oracle
from tests.support.oracles.plain_oracle import Cell, Parts
from tests.support.oracles.plain_visits import PlainCell, VisitCell

PARTS = {
    "sales": pos_oracle.PARTS,
    "traffic": ("entries", "exits", "passers_by", "entries_with_passers"),
}
SOURCES = {"sales": "pos", "traffic": "traffic"}


def speed_rows(session: Session, family: str) -> dict[Cell, Parts]:
    """The speed layer's rows."""
    return _cells(session.execute(f"SELECT * FROM {family}_15min"), family)


def batch_rows(session: Session, family: str) -> dict[Cell, Parts]:
    """The rows of the generations that are served."""
    return _cells(served_rows(session, family), family)


def served_rows(session: Session, family: str) -> list[Any]:
    """Of each batch row the newest version of the generations that were published of its day."""
    served, published = set[tuple[str, int]](), set[tuple[str, int]]()
    for table, found in (("batch_pointer", served), ("batch_pointer_history", published)):
        rows = session.execute(f"SELECT family, day, generation FROM {table}")
        found |= {(str(row.day), row.generation) for row in rows if row.family == family}
    newest_of_day = dict(served)
    [*partition, _] = (
        session.cluster.metadata.keyspaces[str(session.keyspace)]
        .tables[f"batch_{family}_15min"]
        .primary_key
    )
    names = [column.name for column in partition]
    newest: dict[tuple[Any, ...], Any] = {}
    for row in session.execute(f"SELECT * FROM batch_{family}_15min"):
        day = str(row.day)
        if (day, row.generation) in served | published and row.generation <= newest_of_day[day]:
            key = tuple(getattr(row, name) for name in names)
            newest[key] = max(row, newest.get(key, row), key=lambda each: each.generation)
    return [row for row in newest.values() if row.events is not None]


def visit_rows(session: Session, table: str) -> dict[VisitCell, PlainCell]:
    """The rows of visits of a table, of the generations that are served; a median's counts must
    be as many as the visits."""
    rows = session.execute(f"SELECT * FROM {table}")
    if table.startswith("batch_"):
        rows = served_rows(session, "wifi")
    found: dict[VisitCell, PlainCell] = {}
    for row in rows:
        sums = [getattr(row, name) for name in PlainCell._fields[:-1]]
        cell = PlainCell._make([*sums, len(row.visitors or ())])
        assert sum(count for _, count in row.stay_minutes or ()) == row.visits
        if any(cell):
            found[row.store_id, row.window_start.replace(tzinfo=UTC), row.mac_class] = cell
    return found


def _cells(rows: Iterable[Any], family: str) -> dict[Cell, Parts]:
    """The total rows that are not all zero."""
    found = {
        (row.store_id, row.window_start.replace(tzinfo=UTC), getattr(row, "currency", "")): tuple(
            getattr(row, part) for part in PARTS[family]
        )
        for row in rows
        if row.dim == "*"
    }
    return {cell: parts for cell, parts in found.items() if any(parts)}
