"""A Cassandra session without a node that answers SELECTs of whole tables from rows of a test."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from cassandra.util import Date

from tally.families.family import TOTAL_DIM, TOTAL_DIM_VALUE, Family
from tally.families.generation import Generation

_TABLE = re.compile(r"FROM (\w+)")


class Pointer(NamedTuple):
    """A row of batch_pointer in the columns GENERATION_COLUMNS, as the driver gives it."""

    day: Date
    generation: int
    epoch: int
    covered_from: datetime
    covered_until: datetime
    table_version: int
    flipped_at: datetime
    pinned: Mapping[int, int]
    through: Mapping[int, datetime]


def pointer_row(claim: Generation) -> Pointer:
    """The generation as it lies in batch_pointer: instants of the driver have no zone."""
    values: list[Any] = [getattr(claim, name) for name in Pointer._fields[1:]]
    bare: Iterator[Any]
    bare = (one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in values)
    return Pointer(Date(claim.day), *bare)


def view_row(family: Family, window: tuple[str, datetime], events: int, **columns: Any) -> Any:
    """A row of the family's view; `columns` has the others: axes, parts, epoch, excluded parts,
    generation."""
    store, start = window
    return SimpleNamespace(
        store_id=store,
        day=Date(start.date()),
        window_start=start.replace(tzinfo=None),
        dim=TOTAL_DIM,
        dim_value=TOTAL_DIM_VALUE,
        events=events,
        **{"epoch": family.epoch, **columns},
    )


class _Page:
    """A whole answer."""

    has_more_pages = False

    def __init__(self, rows: Sequence[Any]) -> None:
        self.current_rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.current_rows)


class StoredSession:
    """Answers with all rows of the table that a statement names, whatever it asks of them."""

    def __init__(self, tables: Mapping[str, Sequence[Any]]) -> None:
        self._tables = tables

    def prepare(self, text: str) -> Any:
        return SimpleNamespace(query_string=text)

    def execute(self, statement: Any, _values: Any = None, **_options: Any) -> _Page:
        text = getattr(statement, "query_string", statement)
        found = _TABLE.search(text)
        assert found is not None
        return _Page(self._tables.get(found[1], ()))


def claim_of(start: datetime, until: datetime, generation: int = 1) -> Generation:
    """A generation of the day of `start` that covers [start, until)."""
    return Generation(date(*start.timetuple()[:3]), generation, 1, start, until, 1, until, {}, {})
