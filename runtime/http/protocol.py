"""HTTP/1.1 connections with limits, which end by themselves.

There are deadlines for headers, body and answer, and limits on headers and on pipelined requests.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tally.errors import TooManyInARow

MAX_HEADER_BYTES = 64 * 1024
# Requests of one connection that wait for the answer of an earlier one; only an attacker has more
# than a few.
MAX_PIPELINED = 16
# Name of the extension of a request's scope with which an endless answer requests more time.
MORE_TIME = "tally.more_time"
# A chunk of one byte costs six: a body's framing may be no larger than this factor.
_FRAMING = 8


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

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.deadline = float("inf")
        self._in_headers = True
        self._is_ending = False
        self._is_endless = False
        self._raw_bytes = 0
        self._body_bytes = 0

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
        most = MAX_HEADER_BYTES + (0 if self._in_headers else _FRAMING * self._body_bytes)
        if self._in_headers and self._raw_bytes > most:
            self._end(431, "The headers are too large.")
        elif self._raw_bytes > most:
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
        self._in_headers, self._raw_bytes, self._body_bytes = False, 0, 0
        self._set_deadline(self.limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        """Handle a piece of the body."""
        super().on_body(body)
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        """Handle the end of the request; the answer follows."""
        super().on_message_complete()
        self._in_headers, self._raw_bytes = True, 0
        if self.cycle is not None and not self.cycle.response_complete:
            self._set_deadline(self.limits.request_seconds)

    def on_response_complete(self) -> None:
        """Handle the end of the answer; the connection is idle, or the next request follows."""
        super().on_response_complete()
        self._set_deadline(
            self.limits.request_seconds
            if self.pipeline
            else self.limits.idle_seconds + self.limits.header_seconds
        )

    def expire(self, now: float) -> None:
        """End the connection if its deadline is past. `now` is of the event loop's clock."""
        if now <= self.deadline:
            return
        if self._is_ending or (
            self.cycle is not None
            and self.cycle.response_started
            and not self.cycle.response_complete
        ):
            # The client does not read the answer: there is no point in waiting.
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
        """Stop the connection: an endless answer is ended, any other is finished."""
        super().shutdown()
        if self._is_endless and self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self.transport.close()

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
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_refusal(status, reason))
        if self.cycle is not None and not self.cycle.response_complete:
            # The application's wait for the body ends as if the client had hung up.
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
