"""The serving tables in Cassandra: all partitions of a question at once, pointers by a SERIAL read."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from threading import Lock
from typing import Any

from cassandra import ConsistencyLevel, DriverException, OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, NoHostAvailable, Session
from cassandra.policies import ConstantReconnectionPolicy
from cassandra.protocol import ErrorMessage
from cassandra.query import BoundStatement, PreparedStatement, tuple_factory

from serving.merge import statements as cql
from serving.merge.rows import ActiveStore, FamilyRows, Pointer, Scope, States
from serving.merge.states import states_of
from tally.connect import cassandra_cluster
from tally.errors import ViewsUnreachable
from tally.families import FAMILIES, Family
from tally.settings import Settings
from tally.windows import utc_days

READ_TIMEOUT_SECONDS = 10.0
# Requests in flight of one question; a connection takes 32,768, and there are other questions.
AT_ONCE = 256
RECONNECT_SECONDS = 1.0
_UNREACHABLE = (NoHostAvailable, OperationTimedOut, DriverException, ErrorMessage, OSError)
_EPOCH_START = datetime.fromtimestamp(0, UTC)
Row = tuple[Any, ...]


@dataclass(frozen=True)
class _Connected:
    cluster: Cluster
    session: Session
    profile: Any


class CassandraViews:
    """Reads by one session, made at the first question: the API starts, and says so, also when no node answers yet."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._connected: _Connected | None = None
        self._failed_at = 0.0
        self._prepared: dict[str, PreparedStatement] = {}
        self._known: set[str] = set()

    def read(self, scope: Scope) -> FamilyRows:
        """The rows of both layers in the scope: the batch rows once the pointers name the generations, all else at once."""
        family, days = scope.family, scope.days
        live = scope.as_of is None
        pointer_asks = self._pointer_asks(scope, days)
        progress = [(cql.MASTER_PROGRESS, (family.name, day)) for day in days] if live else []
        offsets = [(cql.SPEED_PROGRESS, (family.name,))] if live else []
        speed = self._speed_asks(scope) if live else []
        answers = iter(self._fetch([*pointer_asks, *progress, *offsets, *(ask for _, ask in speed)]))
        pointers = _pointers([row for _ in pointer_asks for row in next(answers)], scope.as_of)
        master_until = {(_day(day), partition): until for _ in progress for day, partition, until in next(answers)}
        speed_offsets = {partition: until for _ in offsets for partition, until in next(answers)}
        speed_states = _by_store(family, ((store, next(answers)) for store, _ in speed))
        batch_states, late = self._second_round(scope, pointers)
        return FamilyRows(pointers, speed_states, batch_states, master_until, speed_offsets, late)

    def active_stores(self) -> list[ActiveStore]:
        """Every store with rows in any family, by store_id ascending."""
        spans: dict[str, list[date]] = {}
        for rows in self._fetch([(cql.ACTIVE_STORES, (family,)) for family in FAMILIES]):
            for store_id, *days in rows:
                spans.setdefault(store_id, []).extend(_day(day) for day in days if day is not None)
        self._known |= spans.keys()
        return [ActiveStore(store, min(days, default=None), max(days, default=None)) for store, days in sorted(spans.items())]

    def unknown_stores(self, store_ids: Iterable[str]) -> list[str]:
        """Those of the ids that have never had a row. A store that was once known stays known, so it is asked for once."""
        asked = [store for store in store_ids if store not in self._known]
        asks = [(cql.ACTIVE_STORE, (family, store)) for store in asked for family in FAMILIES]
        self._known |= {row[0] for rows in self._fetch(asks) for row in rows}
        return [store for store in asked if store not in self._known]

    def check(self) -> str:
        """The node's release, and that the tables are there."""
        version = self._fetch([(cql.NODE, ()), (cql.SPEED_PROGRESS, ("sales",))])[0][0][0]
        return f"Cassandra {version} at {self._settings.cassandra}, keyspace {self._settings.keyspace}"

    def close(self) -> None:
        """Nothing; the session is closed."""
        if self._connected is not None:
            self._connected.cluster.shutdown()

    def _pointer_asks(self, scope: Scope, days: Sequence[date]) -> list[tuple[str, Row]]:
        if scope.as_of is None:
            return [(cql.POINTERS, (scope.family.name, days[0], days[-1]))]
        return [(cql.POINTER_HISTORY, (scope.family.name, day)) for day in days]

    def _speed_asks(self, scope: Scope) -> list[tuple[str, tuple[str, Row]]]:
        text = cql.speed_rows(scope.family, counter=self._settings.sink_register == "counter")
        return [(store, (text, (store, day, *span))) for store, span in scope.spans.items() for day in utc_days(*span)]

    def _second_round(self, scope: Scope, pointers: Mapping[date, Pointer]) -> tuple[dict[str, States], int]:
        text = cql.batch_rows(scope.family)
        batch = [
            (store, (text, (store, day, pointers[day].generation, *span)))
            for store, span in scope.spans.items()
            for day in utc_days(*span)
            if day in pointers
        ]
        pin = min((pointer.flipped_at for pointer in pointers.values()), default=_EPOCH_START)
        late = [(cql.SPEED_LATE, (scope.family.name, pin))] if scope.as_of is None else []
        answers = iter(self._fetch([*late, *(ask for _, ask in batch)]))
        dropped = sum(row[0] for _ in late for row in next(answers))
        return _by_store(scope.family, ((store, next(answers)) for store, _ in batch)), dropped

    def _fetch(self, asks: Sequence[tuple[str, Row]]) -> list[list[Row]]:
        """The rows of each statement, in order; up to AT_ONCE of them in flight. Raises ViewsUnreachable."""
        if not asks:
            return []
        with self._unreachable():
            connected = self._connection()
            bound = [self._bind(connected.session, text, values) for text, values in asks]
            rows: list[list[Row]] = []
            for first in range(0, len(bound), AT_ONCE):
                some = bound[first : first + AT_ONCE]
                futures = [connected.session.execute_async(one, execution_profile=connected.profile) for one in some]
                rows.extend(list(future.result()) for future in futures)
            return rows

    def _bind(self, session: Session, text: str, values: Row) -> BoundStatement:
        statement = self._prepared.get(text)
        if statement is None:
            statement = session.prepare(text)
            statement.is_idempotent = True
            # What a lightweight transaction has decided, also one that is still being written.
            if text is cql.POINTERS:
                statement.consistency_level = ConsistencyLevel.SERIAL
            self._prepared[text] = statement
        return statement.bind(values)

    def _connection(self) -> _Connected:
        with self._lock:
            if self._connected is None:
                if time.monotonic() - self._failed_at < RECONNECT_SECONDS:
                    raise OSError("no node answered a moment ago")
                self._connected = self._connect()
            return self._connected

    def _connect(self) -> _Connected:
        cluster = cassandra_cluster(self._settings)
        cluster.reconnection_policy = ConstantReconnectionPolicy(RECONNECT_SECONDS, max_attempts=None)
        try:
            session = cluster.connect(self._settings.keyspace)
        except _UNREACHABLE:
            cluster.shutdown()
            self._failed_at = time.monotonic()
            raise
        changes = {"row_factory": tuple_factory, "request_timeout": READ_TIMEOUT_SECONDS}
        return _Connected(cluster, session, session.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, **changes))

    @contextmanager
    def _unreachable(self) -> Iterator[None]:
        try:
            yield
        except _UNREACHABLE as error:
            where = f"views at {self._settings.cassandra}, keyspace {self._settings.keyspace}"
            raise ViewsUnreachable(f"{where}: {error}; see `tally status`, start it with `tally up cassandra`") from error


def _pointers(rows: Iterable[Row], as_of: datetime | None) -> dict[date, Pointer]:
    """The pointer of each day; of a history, the last generation that had been published by `as_of`."""
    found: dict[date, Pointer] = {}
    for day, generation, covered_until, flipped_at, pinned, through in rows:
        if generation is None or (as_of is not None and _utc(flipped_at) > as_of):
            continue
        known = found.get(_day(day))
        if known is None or known.generation < generation:
            instants = {partition: _utc(instant) for partition, instant in (through or {}).items()}
            found[_day(day)] = Pointer(generation, _utc(covered_until), _utc(flipped_at), dict(pinned or {}), instants)
    return found


def _by_store(family: Family, partitions: Iterable[tuple[str, list[Row]]]) -> dict[str, States]:
    by_store: dict[str, list[Row]] = {}
    for store, rows in partitions:
        by_store.setdefault(store, []).extend(rows)
    return {store: states_of(family, rows) for store, rows in by_store.items()}


def _day(day: Any) -> date:
    # The driver has a type of its own, because CQL's dates reach further than Python's.
    return day.date()  # type: ignore[no-any-return]


def _utc(instant: datetime) -> datetime:
    return instant.replace(tzinfo=UTC)
