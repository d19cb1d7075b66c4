"""The HTTP server of our applications, which stops in bounded time.

What a slow, greedy or foreign client may take is bounded.
"""

import gc
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.types import ASGIApp

from runtime.guard import STRICT_POLICY, BodyBudget, Guard, known_hosts
from runtime.protocol import BoundedProtocol, ConnectionLimits
from tally.errors import StackError

_BACKLOG = 2048
# Files, Kafka, Cassandra: descriptors that are not for clients.
_OWN_DESCRIPTORS = 256
_TICKS_PER_SWEEP = 5
# What a websocket of the page says in one message.
_MOST_SOCKET_BYTES = 256 * 1024


@dataclass(frozen=True)
class Place:
    """Where an application is served, and to whom.

    `allowed_hosts`: further names, comma between.
    """

    address: str
    allowed_hosts: str = ""
    page_policy: str = STRICT_POLICY
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


class _Server(uvicorn.Server):
    """Stops by itself when told to, and ends connections that are past their deadline."""

    must_end: Callable[[], bool]

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop; asked ten times a second."""
        if counter % _TICKS_PER_SWEEP == 0:
            self._sweep()
        return await super().on_tick(counter) or self.must_end()

    def _sweep(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.expire(connection.loop.time())


def serve(
    app: ASGIApp,
    place: Place,
    must_end: Callable[[], bool] = lambda: False,
) -> None:
    """Return after SIGTERM, SIGINT or when `must_end` says so.

    What was being answered has been by then. Raises StackError: no address.
    """
    listener = _listener(place.address)
    guarded = Guard(
        BodyBudget(app, place.limits.bytes_in_flight),
        known_hosts(place.address, place.allowed_hosts),
        place.page_policy,
    )
    limits = replace(place.limits, connections=_most_connections(place.limits.connections))
    server = _Server(_configuration(guarded, limits))
    server.must_end = must_end
    for wanted in (signal.SIGTERM, signal.SIGINT):
        # Uvicorn raises the signal once more after its shutdown; the process has its own ending to
        # do then.
        signal.signal(wanted, lambda _number, _frame: None)
    # What was loaded lives as long as the process: looked through once more by every full
    # collection, it held all clients for 50 ms.
    gc.collect()
    gc.freeze()
    with listener:
        server.run([listener])


def _configuration(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    protocol = type("Protocol", (BoundedProtocol,), {"limits": limits})
    return uvicorn.Config(
        app,
        http=protocol,
        # To the log of the process, as all else is.
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.shutdown_seconds,
        ws_max_size=_MOST_SOCKET_BYTES,
        ws_per_message_deflate=False,
    )


def _listener(address: str) -> socket.socket:
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


def _most_connections(wanted: int) -> int:
    """As many as wanted, or as the process may have descriptors for.

    That limit is raised as far as allowed.
    """
    # The soft limit is 1,024 on many systems; any process may raise it up to the hard one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, hard - _OWN_DESCRIPTORS))
