"""Receivers on loopback for the tests of webhooks: real servers, whose answers a test chooses."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

CERTIFICATE = Path(__file__).parent / "tablet.pem"
# The certificate's; it is found nowhere.
TLS_HOST = "tablet.test"


class Got(NamedTuple):
    """One call as it arrived; headers by name in small letters."""

    path: str
    headers: dict[str, str]
    body: bytes


# What is done with a call: writes an answer, or none.
Reaction = Callable[[BaseHTTPRequestHandler, Got], None]


def status(code: int, **headers: str) -> Reaction:
    """Answers with a status, and with headers by name with `_` for `-`."""

    def answer(handler: BaseHTTPRequestHandler, _got: Got) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


@contextmanager
def receiver(react: Reaction, tls: bool = False) -> Iterator[tuple[int, list[Got]]]:
    """The port of a receiver that reacts so, and the calls that have come, in their order."""
    calls: list[Got] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got = Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            calls.append(got)
            react(self, got)

        def log_message(self, *_words: object) -> None:
            """Nothing: a test says what it has seen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1], calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
