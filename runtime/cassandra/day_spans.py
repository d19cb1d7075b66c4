"""Tables with the first and last day of each key, as two registers by day number."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cassandra.cluster import Session
from cassandra.query import BoundStatement

from runtime.cassandra.writes import prepare_idempotent
from runtime.connect import CQL_DATE_ZERO

SpanKey = tuple[str, ...]


class DaySpan(NamedTuple):
    """First and last day, in days since 1970, both inclusive."""

    first: int
    last: int


class SpanTable:
    """Writes spans of keys; the result is independent of earlier writes and of their writers.

    The earlier first day has the higher write timestamp and wins; so does the later last day.
    `fixed` has the columns that all keys share: value by column.
    """

    def __init__(
        self, session: Session, table: str, fixed: Mapping[str, str], keys: Sequence[str]
    ) -> None:
        self._fixed = tuple(fixed.values())
        columns = (*fixed, *keys)
        names, marks = ", ".join(columns), "?, " * len(columns)
        # Two statements: with one timestamp the earlier first and later last day cannot both win.
        self._first, self._last = (
            prepare_idempotent(
                session,
                f"INSERT INTO {session.keyspace}.{table} ({names}, {column})"
                f" VALUES ({marks}?) USING TIMESTAMP ?",
            )
            for column in ("first_day", "last_day")
        )

    def build_writes(
        self, key: SpanKey, span: DaySpan, known: DaySpan | None = None
    ) -> Iterator[BoundStatement]:
        """The writes that widen the key's span to include this one; `known` is already stored."""
        first, last = span
        # Only the side that has moved is written: with both, a store's new days took longer than
        # its rows (14 of 18 s in a profile).
        if known is None or first != known.first:
            yield self._first.bind((*self._fixed, *key, first + CQL_DATE_ZERO, -first))
        if known is None or last != known.last:
            yield self._last.bind((*self._fixed, *key, last + CQL_DATE_ZERO, last))


def activity_table(session: Session, family: str) -> SpanTable:
    """The span table of a family's stores; a key is (store_id,)."""
    return SpanTable(session, "store_activity", {"family": family}, ("store_id",))


def axis_table(session: Session, family: str, axis: str) -> SpanTable:
    """The span table of the values of a family's axis; a key is (store_id, value)."""
    fixed = {"family": family, "axis": axis}
    return SpanTable(session, "store_axis", fixed, ("store_id", "value"))
