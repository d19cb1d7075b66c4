"""First and last day of each store's events: two registers by day number."""

from collections.abc import Iterable

from cassandra.cluster import Session
from cassandra.query import BoundStatement, PreparedStatement

from speed_layer.sink.writer import write_all
from tally.connect import CQL_DATE_ZERO
from tally.families import Family


class StoreActivity:
    """The days that one Python worker has noted; a store is written again only when its span grows."""

    def __init__(self, family: Family, session: Session) -> None:
        self._family, self._session = family, session
        self._spans: dict[str, tuple[int, int]] = {}
        self._first = self._prepare("first_day")
        self._last = self._prepare("last_day")

    def note(self, days: Iterable[tuple[str, int]]) -> None:
        """Stores seen on days (days since 1970), written unless this worker has had them acknowledged before."""
        spans: dict[str, tuple[int, int]] = {}
        for store_id, day in days:
            first, last = spans.get(store_id) or self._spans.get(store_id, (day, day))
            spans[store_id] = (min(first, day), max(last, day))
        changed = {store_id: span for store_id, span in spans.items() if self._spans.get(store_id) != span}
        write_all(self._session, [one for store_id, span in changed.items() for one in self._writes(store_id, span)])
        self._spans.update(changed)

    def _writes(self, store_id: str, span: tuple[int, int]) -> tuple[BoundStatement, BoundStatement]:
        # The earlier first day has the higher write timestamp and wins; likewise the later last day.
        first, last = span
        return (
            self._first.bind((self._family.name, store_id, first + CQL_DATE_ZERO, -first)),
            self._last.bind((self._family.name, store_id, last + CQL_DATE_ZERO, last)),
        )

    def _prepare(self, column: str) -> PreparedStatement:
        text = f"INSERT INTO {self._session.keyspace}.store_activity (family, store_id, {column}) VALUES (?, ?, ?) USING TIMESTAMP ?"
        statement = self._session.prepare(text)
        statement.is_idempotent = True
        return statement
