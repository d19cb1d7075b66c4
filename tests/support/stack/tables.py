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
    rows = session.execute(f"SELECT * FROM batch_{family}_15min")
    return _cells(_published(session, family, rows), family)


def _published(session: Session, family: str, rows: Iterable[Any]) -> list[Any]:
    pointers = session.execute(
        "SELECT day, generation FROM batch_pointer WHERE family = %s", [family]
    )
    published = {(str(row.day), row.generation) for row in pointers}
    return [row for row in rows if (str(row.day), row.generation) in published]


def visit_rows(session: Session, table: str) -> dict[VisitCell, PlainCell]:
    """The rows of visits of a table, of the generations that are served; a median's counts must
    be as many as the visits."""
    rows = session.execute(f"SELECT * FROM {table}")
    if table.startswith("batch_"):
        rows = _published(session, "wifi", rows)
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
