"""The HTTP server of all applications, which stops in bounded time.

The resources of a slow, greedy or foreign client are limited: there are deadlines for headers, body
and answer, and limits on connections, headers, bodies and pipelined requests.
"""

import asyncio
import gc
import resource
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from runtime.http.guard import STRICT_POLICY, BodyBudget, Guard, parse_allowed_hosts
from tally.errors import StackError, TooManyInARow

MAX_HEADER_BYTES = 64 * 1024
# Requests of one connection that wait for the answer of an earlier one; only an attacker has more
# than a few.
MAX_PIPELINED = 16
# Name of the extension of a request's scope with which an endless answer requests more time.
MORE_TIME = "tally.more_time"
# A chunk of one byte costs six: a body's framing may be no larger than this factor.
_FRAMING = 8
_BACKLOG = 2048
# Descriptors for files, Kafka and Cassandra, which are not available to clients.
_OWN_DESCRIPTORS = 256
_TICKS_PER_SWEEP = 5
# The size of one message from the page's websocket.
_MAX_SOCKET_BYTES = 256 * 1024


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits on the clients of a process.

    Seconds count from the start of each part; connections and bytes are those of the process.
    """

    header_seconds: float = 10.0
    idle_seconds: int = 5
    body_seconds: float = 30.0
    request_seconds: float = 60.0
    connections: int = 4096
    bytes_in_flight: int = 64 * 1024 * 1024
    shutdown_seconds: int = 10


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with one deadline, which is reset at each part of a request.

    `expire` ends connections that are past it. Uvicorn itself limits only the idle time, and any
    single byte switches that off.
    """

    limits = ConnectionLimits()
    deadline = float("inf")
    _in_headers = True
    _is_ending = _is_endless = False
    # Of the current part: all bytes, and those of the body without its framing.
    _raw_bytes = _body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; one above the limit is refused at once."""
        super().connection_made(transport)
        self._set_deadline(self.limits.header_seconds)
        if len(self.connections) > self.limits.connections:
            self._end(503, "Too many connections; come back later.")

    def data_received(self, data: bytes) -> None:
        """Parse; end the connection when headers, trailers or framing grow beyond their limit."""
        if self._is_ending:
            return
        # Bytes are counted first: parsing may begin another part, which resets the count.
        self._raw_bytes += len(data)
        super().data_received(data)
        if self._raw_bytes > MAX_HEADER_BYTES + _FRAMING * self._body_bytes:
            if self._in_headers:
                self._end(431, "The headers are too large.")
            else:
                self._end(400, "The body has too much framing.")

    def on_message_begin(self) -> None:
        """Handle the begin of a request; its headers follow."""
        super().on_message_begin()
        self._in_headers, self._is_endless = True, False
        self.scope["extensions"] = {MORE_TIME: {"ask": self._extend_deadline}}

    def on_headers_complete(self) -> None:
        """Handle the begin of the body. Raises TooManyInARow when too many requests wait."""
        super().on_headers_complete()
        if len(self.pipeline) > MAX_PIPELINED:
            raise TooManyInARow
        self._begin_part(in_headers=False)
        self._set_deadline(self.limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        """Count a piece of the body."""
        super().on_body(body)
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        """Handle the end of the request; the answer follows."""
        super().on_message_complete()
        self._begin_part(in_headers=True)
        if self._open_cycle():
            self._set_deadline(self.limits.request_seconds)

    def on_response_complete(self) -> None:
        """Handle the end of the answer; the connection is idle, or the next request follows."""
        super().on_response_complete()
        limits = self.limits
        idle_seconds = limits.idle_seconds + limits.header_seconds
        self._set_deadline(limits.request_seconds if self.pipeline else idle_seconds)

    def expire(self, now: float) -> None:
        """End the connection if its deadline is past. `now` is of the event loop's clock."""
        if now <= self.deadline:
            return
        cycle = self._open_cycle()
        if self._is_ending or (cycle and cycle.response_started):
            # The client does not read the answer: there is no point in waiting.
            self.transport.abort()
        elif cycle and not cycle.more_body:
            self._end(503, "The answer took too long.")
        else:
            self._end(408, "The request took too long.")

    def shutdown(self) -> None:
        """Stop the connection: an endless answer is ended, any other is finished."""
        super().shutdown()
        if self._is_endless:
            self._hang_up()

    def _open_cycle(self) -> RequestResponseCycle | None:
        """The request under way, whose answer is not complete."""
        return None if self.cycle is None or self.cycle.response_complete else self.cycle

    def _begin_part(self, in_headers: bool) -> None:
        self._in_headers, self._raw_bytes, self._body_bytes = in_headers, 0, 0

    def _extend_deadline(self) -> None:
        # Requested once the sent bytes are taken: a client that reads nothing misses the deadline.
        self._is_endless = True
        self._set_deadline(self.limits.request_seconds)

    def _set_deadline(self, seconds: float) -> None:
        # From the start of a part, not its last byte: a trickling client would never be past it.
        self.deadline = self.loop.time() + seconds

    def _end(self, status: int, reason: str) -> None:
        """Send the reason and close; a client that does not read it is cut off soon after."""
        self._is_ending = True
        self._set_deadline(1.0)
        cycle = self._open_cycle()
        if cycle is None or not cycle.response_started:
            retry = "Retry-After: 1\r\n" if status == 503 else ""
            head = (
                f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\n"
                f"Content-Length: {len(reason)}\r\n{retry}Connection: close\r\n\r\n"
            )
            self.transport.write((head + reason).encode("ascii"))
        self._hang_up()

    def _hang_up(self) -> None:
        # The application's wait for the body ends as if the client had hung up.
        if cycle := self._open_cycle():
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()


@dataclass(frozen=True)
class ServerOptions:
    """How an application is served; `allowed_hosts`: further host names, separated by commas."""

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
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.expire(connection.loop.time())
        return await super().on_tick(counter) or self.must_end()


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
    hosts = parse_allowed_hosts(place.address, place.allowed_hosts)
    guarded = Guard(BodyBudget(app, place.limits.bytes_in_flight), hosts, place.page_policy)
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
    return uvicorn.Config(
        app,
        http=type("Protocol", (BoundedProtocol,), {"limits": limits}),
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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise StackError(
            f"cannot listen on {address}: {error.strerror}; free the address or choose another one"
        ) from error


def _limit_connections(connections: int) -> int:
    """The connections that the descriptors of the process allow; raises the limit on these."""
    # The soft limit is 1,024 on many systems; any process may raise it up to the hard one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, hard - _OWN_DESCRIPTORS))
