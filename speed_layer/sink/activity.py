"""First and last day of each store's events, and of each currency of a store.

Two registers by day number each.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from cassandra.cluster import Session

from runtime.day_spans import DaySpan, SpanKey, SpanTable
from runtime.writes import write_groups
from tally.families import CURRENCY, Family


class StoreActivity:
    """What one Python worker has noted of the stores of a family.

    Also of their currencies, if the family has that axis.
    """

    def __init__(self, family: Family, session: Session) -> None:
        self._stores = DaySpans(session, "store_activity", family, ("store_id",))
        has_currency = CURRENCY in family.axes
        self._currencies = (
            DaySpans(session, "store_currency", family, ("store_id", CURRENCY))
            if has_currency
            else None
        )
        # In a row behind store, day and start of the window (rows.py).
        self._currency = 3 + family.axes.index(CURRENCY) if has_currency else 0

    def note(self, rows: Sequence[Sequence[Any]]) -> None:
        """The stores, days and currencies of rows in the columns of the family's speed table.

        Day as days since 1970.
        """
        self._stores.note(((row[0],), row[1]) for row in rows)
        if self._currencies:
            self._currencies.note(
                (
                    (row[0], row[self._currency]),
                    row[1],
                )
                for row in rows
            )

    def flush(self) -> None:
        """Block until all that was noted is acknowledged. Raises Unacknowledged."""
        self._stores.flush()
        if self._currencies:
            self._currencies.flush()


class DaySpans:
    """First and last day by key, in one table; a key is written again only when its span grows."""

    def __init__(self, session: Session, table: str, family: Family, keys: SpanKey) -> None:
        self._session = session
        self._table = SpanTable(session, table, family.name, keys)
        # What was seen, of that what is not written yet, and what Cassandra has acknowledged.
        self._seen: dict[SpanKey, DaySpan] = {}
        self._changed: dict[SpanKey, DaySpan] = {}
        self._written: dict[SpanKey, DaySpan] = {}

    def note(self, days: Iterable[tuple[SpanKey, int]]) -> None:
        """Keys seen on days (days since 1970).

        Written by flush(), however many lots of rows there were before it.
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
        """Block until each span that has grown is acknowledged. Raises Unacknowledged."""
        write_groups(
            self._session,
            (
                [write]
                for key, span in self._changed.items()
                for write in self._table.writes(key, span, self._written.get(key))
            ),
        )
        self._written.update(self._changed)
        self._changed.clear()
