"""Requests handed straight to an application, with what each of them cost this process."""

import asyncio
import time
import tracemalloc
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

from tests.support.stack.nominal_processor import slowness

# What one request may cost at most, whatever it holds.
MAX_PROCESSOR_SECONDS, MAX_LOOP_SECONDS, MAX_BYTES = 2.0, 0.1, 64 * 1024 * 1024
_CHUNK = 64 * 1024
_TRIES = 3


@dataclass
class RawRequest:
    """One request: method, path and query as they are on the wire, and a body in chunks."""

    method: str
    target: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class RawAnswer:
    """Status, headers and body; the costs are those of the cheapest of up to three tries."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    processor_seconds: float = 0.0
    loop_seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def costs(self) -> tuple[bool, bool, bool]:
        """Whether processor time, time of the loop's thread and memory are within their limits."""
        slow = slowness()
        return (
            self.processor_seconds <= MAX_PROCESSOR_SECONDS * slow,
            self.loop_seconds <= MAX_LOOP_SECONDS * slow,
            self.peak_bytes <= MAX_BYTES,
        )


def measured(app: ASGIApp, request: RawRequest) -> RawAnswer:
    """The answer and its costs. Memory is measured in a run of its own, for that makes it slow."""
    tries = [asyncio.run(_timed(app, request))]
    while not tries[-1].costs[1] and len(tries) < _TRIES:
        # A core that other work shares takes several times as long now and then.
        tries.append(asyncio.run(_timed(app, request)))
    found = min(tries, key=lambda one: one.loop_seconds)
    tracemalloc.start()
    try:
        asyncio.run(send(app, request))
        found.peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return found


async def _timed(app: ASGIApp, request: RawRequest) -> RawAnswer:
    processor, loop = time.process_time(), time.thread_time()
    answer = await send(app, request)
    answer.processor_seconds = time.process_time() - processor
    answer.loop_seconds = time.thread_time() - loop
    return answer


async def send(
    app: ASGIApp, request: RawRequest, hung_up: asyncio.Event | None = None
) -> RawAnswer:
    """The answer; `hung_up`: its client is gone once that is set. Errors are the caller's."""
    path, _, query = request.target.partition("?")
    headers = {"host": "127.0.0.1", "content-type": "application/json", **request.headers}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    body = request.body
    chunks = [body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK)] or [b""]
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]
    answer, ended = RawAnswer(), hung_up or asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        if waiting:
            return waiting.pop(0)
        await ended.wait()
        return {"type": "http.disconnect"}

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            answer.body += message.get("body", b"")

    await app(scope, receive, sent)
    return answer
