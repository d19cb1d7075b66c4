"""First and last day of each store's events, and of each value that an axis has in a store.

Each span is two registers by day number.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from cassandra.cluster import Session

from runtime.cassandra.day_spans import DaySpan, SpanKey, SpanTable, activity_table, axis_table
from runtime.cassandra.writes import write_groups
from tally.families.family import Family

# Most keys that a worker remembers of one table: half a kilobyte each, and items may be very many.
MAX_REMEMBERED = 100_000
# The axes of a row follow its store, day and start of the window (rows.py).
_FIRST_AXIS = 3


class StoreActivity:
    """Days of the stores of a family and of the values of its axes, noted by one Python worker."""

    def __init__(self, family: Family, session: Session) -> None:
        self._stores = DaySpans(session, activity_table(session, family.name))
        # Each entry has the axis's place in a row.
        self._axes = [
            (place, DaySpans(session, axis_table(session, family.name, axis)))
            for place, axis in enumerate(family.axes, _FIRST_AXIS)
        ]

    def note(self, rows: Sequence[Sequence[Any]]) -> None:
        """Note the stores, days and axes of rows in the columns of the family's speed table.

        Day is in days since 1970.
        """
        self._stores.note(((row[0],), row[1]) for row in rows)
        days = [row[1] for row in rows]
        for place, spans in self._axes:
            keys = ((row[0], row[place]) for row in rows)
            spans.note(zip(keys, days, strict=True))

    def flush(self) -> None:
        """Block until all noted days are acknowledged. Raises CassandraWriteTimeout."""
        self._stores.flush()
        for _, spans in self._axes:
            spans.flush()


class DaySpans:
    """First and last day by key in one table; a key is written again only when its span grows."""

    def __init__(self, session: Session, table: SpanTable) -> None:
        self._session, self._table = session, table
        # The spans seen, those of them not written yet, and those that Cassandra has acknowledged.
        self._seen: dict[SpanKey, DaySpan] = {}
        self._changed: dict[SpanKey, DaySpan] = {}
        self._written: dict[SpanKey, DaySpan] = {}

    def note(self, days: Iterable[tuple[SpanKey, int]]) -> None:
        """Note keys seen on days (days since 1970).

        flush() writes them once, however many batches of rows there were before it.
        """
        for key, day in days:
            span = self._seen.get(key)
            if span is None or not span.first <= day <= span.last:
                first, last = span or (day, day)
                self._seen[key] = self._changed[key] = DaySpan(
                    min(first, day),
                    max(last, day),
                )

    def flush(self) -> None:
        """Block until each span that has grown is acknowledged. Raises CassandraWriteTimeout."""
        write_groups(
            self._session,
            (
                [write]
                for key, span in self._changed.items()
                for write in self._table.build_writes(key, span, self._written.get(key))
            ),
        )
        self._written.update(self._changed)
        self._changed.clear()
        # The memory is cleared all at once: a repeated key is written again, and registers decide.
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.clear()
            self._written.clear()
