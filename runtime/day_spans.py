"""First and last day of each key, in one table of two registers by day number."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cassandra.cluster import Session
from cassandra.query import BoundStatement

from runtime.connect import CQL_DATE_ZERO
from runtime.writes import prepared

SpanKey = tuple[str, ...]


class DaySpan(NamedTuple):
    """First and last day, in days since 1970, both inclusive."""

    first: int
    last: int


class SpanTable:
    """Writes spans of one family, whatever was written before and by whom.

    The earlier first day has the higher write timestamp and wins; so has the later last day.
    """

    def __init__(
        self,
        session: Session,
        table: str,
        family: str,
        keys: Sequence[str],
    ) -> None:
        self._family = family
        names, marks = ", ".join(keys), "?, " * len(keys)
        # Two statements: one timestamp cannot let the lower first day and the higher last day win.
        self._first, self._last = (
            prepared(
                session,
                f"INSERT INTO {session.keyspace}.{table} (family, {names}, {column})"
                f" VALUES (?, {marks}?) USING TIMESTAMP ?",
            )
            for column in ("first_day", "last_day")
        )

    def writes(
        self, key: SpanKey, span: DaySpan, known: DaySpan | None = None
    ) -> Iterator[BoundStatement]:
        """The writes that make the span of the key at least this one; `known` is there already."""
        first, last = span
        # Only the side that has moved: with both, a store's new days took longer than its rows (14
        # of 18 s in a profile).
        if known is None or first != known.first:
            yield self._first.bind((self._family, *key, first + CQL_DATE_ZERO, -first))
        if known is None or last != known.last:
            yield self._last.bind((self._family, *key, last + CQL_DATE_ZERO, last))
