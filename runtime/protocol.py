"""HTTP/1.1 connections that end by themselves.

Deadlines for headers, body and answer, limits on headers and on requests in a row.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tally.errors import TooManyInARow

MOST_HEADER_BYTES = 64 * 1024
# Requests of one connection that wait for the answer of the one before; nobody but an attacker has
# more than a few.
MOST_PIPELINED = 16
# Name of the extension of a request's scope by which an answer without an end asks for more time.
MORE_TIME = "tally.more_time"
# Chunks of one byte cost six: a body may be framed no worse.
_FRAMING = 8


@dataclass(frozen=True)
class ConnectionLimits:
    """What one client may take.

    Seconds from the start of each part, and connections of the process.
    """

    header_seconds: float = 10.0
    idle_seconds: int = 5
    body_seconds: float = 30.0
    request_seconds: float = 60.0
    connections: int = 4096
    bytes_in_flight: int = 64 * 1024 * 1024
    shutdown_seconds: int = 10


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with one deadline, moved on from part to part.

    `expire` is called for whoever is past it. Uvicorn itself bounds the idle time alone, and any
    single byte switches that off.
    """

    limits = ConnectionLimits()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.deadline = float("inf")
        self._in_headers = True
        self._ending = False
        self._is_endless = False
        self._raw_bytes = 0
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """One more connection; beyond the most it is refused at once."""
        super().connection_made(transport)
        self._allow(self.limits.header_seconds)
        if len(self.connections) > self.limits.connections:
            self._end(503, "Too many connections; come back later.")

    def data_received(self, data: bytes) -> None:
        """Parses; ends the connection when headers, trailers or framing grow beyond their limit."""
        if self._ending:
            return
        # Counted first: what begins another part while it is parsed sets the count back.
        self._raw_bytes += len(data)
        super().data_received(data)
        most = MOST_HEADER_BYTES + (0 if self._in_headers else _FRAMING * self._body_bytes)
        if self._in_headers and self._raw_bytes > most:
            self._end(431, "The headers are too large.")
        elif self._raw_bytes > most:
            self._end(400, "The body has too much framing.")

    def on_message_begin(self) -> None:
        """A request begins: its headers come."""
        super().on_message_begin()
        self._in_headers, self._is_endless = True, False
        self.scope["extensions"] = {MORE_TIME: {"ask": self._more_time}}

    def on_headers_complete(self) -> None:
        """The body comes. Raises TooManyInARow when more requests wait than anybody honest has."""
        super().on_headers_complete()
        if len(self.pipeline) > MOST_PIPELINED:
            raise TooManyInARow
        self._in_headers, self._raw_bytes, self._body_bytes = False, 0, 0
        self._allow(self.limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        """Some of the body."""
        super().on_body(body)
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        """The request is whole: the answer's turn."""
        super().on_message_complete()
        self._in_headers, self._raw_bytes = True, 0
        if self.cycle is not None and not self.cycle.response_complete:
            self._allow(self.limits.request_seconds)

    def on_response_complete(self) -> None:
        """Answered: idle, or the next request's headers."""
        super().on_response_complete()
        self._allow(
            self.limits.request_seconds
            if self.pipeline
            else self.limits.idle_seconds + self.limits.header_seconds
        )

    def expire(self, now: float) -> None:
        """Ends the connection if its deadline is past. `now` is of the event loop's clock."""
        if now <= self.deadline:
            return
        if self._ending or (
            self.cycle is not None
            and self.cycle.response_started
            and not self.cycle.response_complete
        ):
            # What was written is not read: there is nobody to wait for.
            self.transport.abort()
            return
        is_answering = (
            self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        )
        if is_answering:
            self._end(503, "The answer took too long.")
        else:
            self._end(408, "The request took too long.")

    def shutdown(self) -> None:
        """The server stops: an answer that would never end is ended, any other is finished."""
        super().shutdown()
        if self._is_endless and self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.close()

    def _more_time(self) -> None:
        # Asked for once what was sent has been taken: who reads nothing is past the deadline.
        self._is_endless = True
        self._allow(self.limits.request_seconds)

    def _allow(self, seconds: float) -> None:
        # From the start of a part, not from its last byte: what trickles would never be past it.
        self.deadline = self.loop.time() + seconds

    def _end(self, status: int, reason: str) -> None:
        """Says why and closes; a client that does not read it is cut off soon after."""
        self._ending = True
        self._allow(1.0)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_refusal(status, reason))
        if self.cycle is not None and not self.cycle.response_complete:
            # The application's wait for the body ends as with a client that hung up.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def _refusal(status: int, reason: str) -> bytes:
    retry = "Retry-After: 1\r\n" if status == 503 else ""
    head = (
        f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(reason)}\r\n{retry}Connection: close\r\n\r\n"
    )
    return (head + reason).encode("ascii")
