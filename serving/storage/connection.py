"""One Cassandra session for asyncio, with prepared statements and a time limit.

Every failure is raised as ViewsUnreachable.
"""

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

from cassandra import ConsistencyLevel, DriverException
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, NoHostAvailable, Session
from cassandra.connection import ConnectionBusy, ConnectionException, ProtocolError
from cassandra.policies import ConstantReconnectionPolicy
from cassandra.protocol import ErrorMessage, InternalError
from cassandra.query import PreparedStatement, tuple_factory

from runtime.cassandra.writes import prepare_idempotent
from runtime.connect import cassandra_cluster
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable

CqlRow = tuple[Any, ...]
# The values of each of several reads.
Bindings = Iterable[tuple[object, ...]]
TIMEOUT_SECONDS = 10.0
RECONNECT_SECONDS = 1.0
# Requests in flight, so that a long question floods neither the node nor the driver's stream ids.
IN_FLIGHT = 128
# The driver's errors have no common base class.
_FAILURES = (
    DriverException,
    ErrorMessage,
    NoHostAvailable,
    ConnectionException,
    ConnectionBusy,
    ProtocolError,
    InternalError,
    OSError,
)


class Connection:
    """A session that is created on first use, outside the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cluster: Cluster | None = None
        self._session: Session | None = None
        self._statements: dict[str, PreparedStatement] = {}
        self._prepare_lock = threading.Lock()
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)

    async def rows(
        self, statement: str, values: tuple[object, ...], is_serial: bool = False
    ) -> list[CqlRow]:
        """Every row of the statement's answer. Raises ViewsUnreachable, also for a timeout."""
        async with self._in_flight:
            try:
                known = self._statements.get(statement) or await asyncio.to_thread(
                    self._prepare, statement
                )
                return await self._execute(known, values, "serial" if is_serial else "quorum")
            except _FAILURES as error:
                # The cause names addresses and classes: it belongs in the log of the service.
                raise ViewsUnreachable(
                    "the serving tables cannot be read; look at `tally status` and ask again"
                ) from error

    async def gather(self, statement: str, bindings: Bindings) -> list[CqlRow]:
        """Every row of answers read at once, in the bindings' order. Raises as rows()."""
        answers = await asyncio.gather(*(self.rows(statement, values) for values in bindings))
        return [row for rows in answers for row in rows]

    async def _execute(
        self, statement: PreparedStatement, values: tuple[object, ...], profile: str
    ) -> list[CqlRow]:
        assert self._session is not None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[CqlRow]] = loop.create_future()

        def settle(rows: list[CqlRow] | None, error: Exception | None) -> None:
            # A cancelled request has no waiter any more.
            if not answer.done():
                answer.set_exception(error) if error else answer.set_result(rows or [])

        # The driver runs callbacks on its own thread.
        self._session.execute_async(statement, values, execution_profile=profile).add_callbacks(
            lambda rows: loop.call_soon_threadsafe(settle, rows, None),
            lambda error: loop.call_soon_threadsafe(settle, None, error),
        )
        return await answer

    def _prepare(self, statement: str) -> PreparedStatement:
        with self._prepare_lock:
            # Looked up again: another thread may have prepared it during the wait for the lock.
            if statement not in self._statements:
                ready = prepare_idempotent(self._ensure_session(), statement)
                # A partition is small and comes in one page: a second page would be another moment.
                ready.fetch_size = None
                self._statements[statement] = ready
            return self._statements[statement]

    def _ensure_session(self) -> Session:
        if self._session is None:
            cluster = cassandra_cluster(self._settings)
            # The driver's own policy waits up to ten minutes before it looks for a lost node again.
            cluster.reconnection_policy = ConstantReconnectionPolicy(
                RECONNECT_SECONDS, max_attempts=None
            )
            try:
                session = cluster.connect(self._settings.keyspace)
                # SERIAL is for pointers: no read is older than one before it, from any node.
                levels = {
                    "quorum": ConsistencyLevel.LOCAL_QUORUM,
                    "serial": ConsistencyLevel.SERIAL,
                }
                for name, level in levels.items():
                    profile = session.execution_profile_clone_update(
                        EXEC_PROFILE_DEFAULT,
                        consistency_level=level,
                        row_factory=tuple_factory,
                        request_timeout=TIMEOUT_SECONDS,
                    )
                    cluster.add_execution_profile(name, profile)
            # A cluster that is not shut down keeps its threads, so each failed try would leak some.
            except BaseException:
                cluster.shutdown()
                raise
            self._cluster, self._session = cluster, session
        return self._session

    def close(self) -> None:
        """End the session, if there is one."""
        if self._cluster is not None:
            self._cluster.shutdown()
        self._cluster = self._session = None
        self._statements.clear()
