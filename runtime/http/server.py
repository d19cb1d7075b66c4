"""The HTTP server of all applications, which stops in bounded time.

The resources of a slow, greedy or foreign client are limited.
"""

import gc
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.types import ASGIApp

from runtime.http.guard import STRICT_POLICY, BodyBudget, Guard, parse_allowed_hosts
from runtime.http.protocol import BoundedProtocol, ConnectionLimits
from tally.errors import StackError

_BACKLOG = 2048
# Descriptors for files, Kafka and Cassandra, which are not available to clients.
_OWN_DESCRIPTORS = 256
_TICKS_PER_SWEEP = 5
# The size of one message from the page's websocket.
_MAX_SOCKET_BYTES = 256 * 1024


@dataclass(frozen=True)
class ServerOptions:
    """The address, hosts and limits with which an application is served.

    `allowed_hosts`: further host names, separated by commas.
    """

    address: str
    allowed_hosts: str = ""
    page_policy: str = STRICT_POLICY
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


class _Server(uvicorn.Server):
    """A server that stops when `must_end` says so, and ends connections past their deadline."""

    must_end: Callable[[], bool]

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; called ten times a second."""
        if counter % _TICKS_PER_SWEEP == 0:
            self._sweep()
        return await super().on_tick(counter) or self.must_end()

    def _sweep(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.expire(connection.loop.time())


def serve(
    app: ASGIApp,
    place: ServerOptions,
    must_end: Callable[[], bool] = lambda: False,
) -> None:
    """Serve the application until SIGTERM, SIGINT or until `must_end` says so.

    Requests under way are answered before it returns. Raises StackError when it cannot listen on
    the address.
    """
    listener = _open_listener(place.address)
    guarded = Guard(
        BodyBudget(app, place.limits.bytes_in_flight),
        parse_allowed_hosts(place.address, place.allowed_hosts),
        place.page_policy,
    )
    limits = replace(place.limits, connections=_limit_connections(place.limits.connections))
    server = _Server(_configuration(guarded, limits))
    server.must_end = must_end
    for number in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn raises the signal again after its shutdown, when the process still has its own
        # shutdown to do.
        signal.signal(number, lambda _number, _frame: None)
    # Loaded objects live as long as the process: scanned by every full collection, they delayed
    # all clients by 50 ms.
    gc.collect()
    gc.freeze()
    with listener:
        server.run([listener])


def _configuration(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    protocol = type("Protocol", (BoundedProtocol,), {"limits": limits})
    return uvicorn.Config(
        app,
        http=protocol,
        # Log lines go to the log of the process, like all others.
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.shutdown_seconds,
        ws_max_size=_MAX_SOCKET_BYTES,
        ws_per_message_deflate=False,
    )


def _open_listener(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    host = host.strip("[]")
    try:
        return socket.create_server(
            (host, int(port)),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except OSError as error:
        raise StackError(
            f"cannot listen on {address}: {error.strerror}; free the address or choose another one"
        ) from error


def _limit_connections(connections: int) -> int:
    """The number of connections, limited by the descriptors of the process.

    The limit on descriptors is raised as far as allowed.
    """
    # The soft limit is 1,024 on many systems; any process may raise it up to the hard one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, hard - _OWN_DESCRIPTORS))
