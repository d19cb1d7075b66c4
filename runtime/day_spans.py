"""First and last day of each key, in one table of two registers by day number."""

from collections.abc import Iterator, Mapping, Sequence
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
    """Writes spans of keys, whatever was written before and by whom.

    The earlier first day has the higher write timestamp and wins; so has the later last day. What
    all keys have in common is `fixed`: value by column.
    """

    def __init__(
        self,
        session: Session,
        table: str,
        fixed: Mapping[str, str],
        keys: Sequence[str],
    ) -> None:
        self._fixed = tuple(fixed.values())
        columns = (*fixed, *keys)
        names, marks = ", ".join(columns), "?, " * len(columns)
        # Two statements: one timestamp cannot let the lower first day and the higher last day win.
        self._first, self._last = (
            prepared(
                session,
                f"INSERT INTO {session.keyspace}.{table} ({names}, {column})"
                f" VALUES ({marks}?) USING TIMESTAMP ?",
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
            yield self._first.bind((*self._fixed, *key, first + CQL_DATE_ZERO, -first))
        if known is None or last != known.last:
            yield self._last.bind((*self._fixed, *key, last + CQL_DATE_ZERO, last))


def activity_table(session: Session, family: str) -> SpanTable:
    """That of a family's stores; a key is (store_id,)."""
    return SpanTable(session, "store_activity", {"family": family}, ("store_id",))


def axis_table(session: Session, family: str, axis: str) -> SpanTable:
    """That of the values which an axis of a family has; a key is (store_id, value)."""
    fixed = {"family": family, "axis": axis}
    return SpanTable(session, "store_axis", fixed, ("store_id", "value"))
