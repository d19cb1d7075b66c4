"""First and last day of each store's events, and of each currency of a store.

Two registers by day number each.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cassandra.cluster import Session
from cassandra.query import BoundStatement, PreparedStatement

from runtime.connect import CQL_DATE_ZERO
from runtime.writes import write_groups
from tally.families import CURRENCY, Family

Key = tuple[str, ...]
Span = tuple[int, int]


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
        self._currency = 3 + family.axes.index(CURRENCY) if has_currency else 0

    def note(self, rows: Sequence[Sequence[Any]]) -> None:
        """The stores, days and currencies of rows in the columns of the family's speed table.

        Day as days since 1970.
        """
        self._stores.note(((row[0],), row[1]) for row in rows)
        if self._currencies:
            self._currencies.note(((row[0], row[self._currency]), row[1]) for row in rows)

    def flush(self) -> None:
        """Nothing, once all that was noted is acknowledged."""
        self._stores.flush()
        if self._currencies:
            self._currencies.flush()


class DaySpans:
    """First and last day by key, in one table; a key is written again only when its span grows."""

    def __init__(self, session: Session, table: str, family: Family, keys: Key) -> None:
        self._session, self._family = session, family
        # What was seen, of that what is not written yet, and what Cassandra has acknowledged.
        self._seen: dict[Key, Span] = {}
        self._changed: dict[Key, Span] = {}
        self._written: dict[Key, Span] = {}
        names, marks = ", ".join(keys), "?, " * len(keys)
        text = (
            f"INSERT INTO {session.keyspace}.{table} (family, {names}, {{}}) VALUES (?,"
            f" {marks}?) USING TIMESTAMP ?"
        )
        self._first, self._last = (
            self._prepare(text.format(column)) for column in ("first_day", "last_day")
        )

    def note(self, days: Iterable[tuple[Key, int]]) -> None:
        """Keys seen on days (days since 1970).

        Written by flush(), however many lots of rows there were before it.
        """
        for key, day in days:
            span = self._seen.get(key)
            if span is None or not span[0] <= day <= span[1]:
                first, last = span or (day, day)
                self._seen[key] = self._changed[key] = min(first, day), max(last, day)

    def flush(self) -> None:
        """Nothing, once each span that has grown is acknowledged."""
        write_groups(
            self._session,
            ([write] for key, span in self._changed.items() for write in self._writes(key, span)),
        )
        self._written.update(self._changed)
        self._changed.clear()

    def _writes(self, key: Key, span: Span) -> Iterator[BoundStatement]:
        # The earlier first day has the higher write timestamp and wins; so has the later last day.
        (first, last), (known_first, known_last) = span, self._written.get(key, (None, None))
        if first != known_first:
            yield self._first.bind((self._family.name, *key, first + CQL_DATE_ZERO, -first))
        if last != known_last:
            yield self._last.bind((self._family.name, *key, last + CQL_DATE_ZERO, last))

    def _prepare(self, text: str) -> PreparedStatement:
        statement = self._session.prepare(text)
        statement.is_idempotent = True
        return statement
