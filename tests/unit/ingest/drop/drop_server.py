"""A gateway that answers as it is told, over a real socket: what a drop sends it, and its answers.

The real gateway is asked in tests/integration/ingest/test_drop.py.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Request:
    """What came: path with parameters, type of the content, the content."""

    path: str
    media_type: str
    content: bytes


@dataclass(frozen=True)
class Answer:
    status: int = 202
    body: Any = field(default_factory=lambda: {"accepted": 1, "rejected": []})
    headers: Mapping[str, str] = field(default_factory=dict)


Answering = Callable[[Request], Answer]


@contextmanager
def answering(answer: Answering) -> Iterator[tuple[str, list[Request]]]:
    """Address of a server, and the requests that have come to it."""
    seen: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            content = self.rfile.read(length)
            request = Request(self.path, self.headers["Content-Type"], content)
            seen.append(request)
            told = answer(request)
            body = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
            self.send_response(told.status)
            for name, value in {**told.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
