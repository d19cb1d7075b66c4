"""One Cassandra session for asyncio: prepared statements and a time limit.

Whatever goes wrong is ViewsUnreachable.
"""

import asyncio
import threading
from typing import Any

from cassandra import ConsistencyLevel, DriverException
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, NoHostAvailable, Session
from cassandra.connection import ConnectionBusy, ConnectionException, ProtocolError
from cassandra.policies import ConstantReconnectionPolicy
from cassandra.protocol import ErrorMessage, InternalError
from cassandra.query import PreparedStatement, tuple_factory

from runtime.connect import cassandra_cluster
from runtime.writes import prepared
from tally.errors import ViewsUnreachable
from tally.settings import Settings

CqlRow = tuple[Any, ...]
TIMEOUT_SECONDS = 10.0
RECONNECT_SECONDS = 1.0
# Requests on their way at once: a long question does not flood the node, nor the driver's 32,768
# stream ids.
IN_FLIGHT = 128
# The driver's errors have no class in common.
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
    """A session made on first use, outside the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._cluster: Cluster | None = None
        self._session: Session | None = None
        self._prepared: dict[str, PreparedStatement] = {}
        self._making = threading.Lock()
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)

    async def rows(
        self, statement: str, values: tuple[object, ...], is_serial: bool = False
    ) -> list[CqlRow]:
        """Every row of the statement's answer as a tuple.

        Raises ViewsUnreachable: no node, no quorum, no table, or no time.
        """
        async with self._in_flight:
            try:
                known = self._prepared.get(statement) or await asyncio.to_thread(
                    self._prepare, statement
                )
                return await self._execute(known, values, "serial" if is_serial else "quorum")
            except _FAILURES as error:
                # The cause names addresses, keyspace and classes: it is for the log of whoever
                # answers, not for the answer.
                raise ViewsUnreachable(
                    "the serving tables cannot be read; look at `tally status` and ask again"
                ) from error

    async def _execute(
        self, statement: PreparedStatement, values: tuple[object, ...], profile: str
    ) -> list[CqlRow]:
        assert self._session is not None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[CqlRow]] = loop.create_future()

        def settle(rows: list[CqlRow] | None, error: Exception | None) -> None:
            # Nobody waits any more for the answer to a cancelled request.
            if not answer.done():
                answer.set_exception(error) if error else answer.set_result(rows or [])

        # The driver calls back on its own thread.
        self._session.execute_async(statement, values, execution_profile=profile).add_callbacks(
            lambda rows: loop.call_soon_threadsafe(settle, rows, None),
            lambda error: loop.call_soon_threadsafe(settle, None, error),
        )
        return await answer

    def _prepare(self, statement: str) -> PreparedStatement:
        with self._making:
            # Looked up again: who waited for the lock may find it done.
            if statement not in self._prepared:
                made = prepared(self._connected(), statement)
                # A partition is small and comes in one page: a second page would be another moment.
                made.fetch_size = None
                self._prepared[statement] = made
            return self._prepared[statement]

    def _connected(self) -> Session:
        if self._session is None:
            cluster = cassandra_cluster(self._settings)
            # The driver's own policy waits up to ten minutes before it looks for a lost node again.
            cluster.reconnection_policy = ConstantReconnectionPolicy(
                RECONNECT_SECONDS, max_attempts=None
            )
            try:
                session = cluster.connect(self._settings.keyspace)
                # Pointers are read SERIAL: no reading of them is older than one before it,
                # whichever node answers.
                for name, level in (
                    ("quorum", ConsistencyLevel.LOCAL_QUORUM),
                    ("serial", ConsistencyLevel.SERIAL),
                ):
                    profile = session.execution_profile_clone_update(
                        EXEC_PROFILE_DEFAULT,
                        consistency_level=level,
                        row_factory=tuple_factory,
                        request_timeout=TIMEOUT_SECONDS,
                    )
                    cluster.add_execution_profile(name, profile)
            # A cluster that is not shut down keeps its threads, and each try that fails would leave
            # some.
            except BaseException:
                cluster.shutdown()
                raise
            self._cluster, self._session = cluster, session
        return self._session

    def close(self) -> None:
        """Ends the session, if there is one."""
        if self._cluster is not None:
            self._cluster.shutdown()
        self._cluster = self._session = None
        self._prepared.clear()
