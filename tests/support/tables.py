"""What each layer's tables hold, in the shape of the plain oracle."""

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from cassandra.cluster import Session

from tests.support import pos_oracle
from tests.support.plain_oracle import Cell, Parts

PARTS = {
    "sales": pos_oracle.PARTS,
    "traffic": ("entries", "exits", "passers_by"),
}
SOURCES = {"sales": "pos", "traffic": "traffic"}


def speed_rows(session: Session, family: str) -> dict[Cell, Parts]:
    """The speed layer's rows."""
    return _cells(session.execute(f"SELECT * FROM {family}_15min"), family)


def batch_rows(session: Session, family: str) -> dict[Cell, Parts]:
    """The rows of the generations that are served."""
    pointers = session.execute(
        "SELECT day, generation FROM batch_pointer WHERE family = %s", [family]
    )
    published = {(str(row.day), row.generation) for row in pointers}
    rows = session.execute(f"SELECT * FROM batch_{family}_15min")
    return _cells((row for row in rows if (str(row.day), row.generation) in published), family)


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
