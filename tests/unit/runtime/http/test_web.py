"""The server of our applications on a real socket: nobody can hold it, and no foreign page can
use it."""

import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.unit.runtime.process.small_site import LIMITS

CHUNKED = b"POST /length HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half"
# The longest of the limits, a sweep of half a second, and a busy machine.
GONE_SECONDS = LIMITS.request_seconds + LIMITS.idle_seconds + 8


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Port of the small site."""
    with site() as (port, _):
        yield port


@contextlib.contextmanager
def site() -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """A small site of one's own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.runtime.process.small_site", f"127.0.0.1:{port}"],
        text=True,
    )
    try:
        _wait(lambda: status_of(port, "GET", "/") == 200)
        yield port, process
    finally:
        process.kill()
        process.wait()


def _wait(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if condition():
                return
        assert time.monotonic() < deadline, "not in time"


def status_of(
    port: int,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> int:
    """Status of one request on a connection of its own."""
    return answer_of(port, method, path, headers, body)[0]


def answer_of(
    port: int,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, http.client.HTTPMessage]:
    """Status and headers of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers
    finally:
        connection.close()


def opened(port: int, sent: bytes) -> socket.socket:
    """A connection on which this was sent."""
    client = socket.create_connection(("127.0.0.1", port), timeout=GONE_SECONDS)
    client.sendall(sent)
    return client


def heard(client: socket.socket) -> bytes:
    """Everything until the server closes; fails when it does not."""
    with client:
        parts = []
        with contextlib.suppress(ConnectionError):
            while part := client.recv(65536):
                parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b"408"),
        (HALF, b"408"),
        (b"POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc", b"408"),
        (b"GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n", b"503"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nX-Half", b"200"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc", b"405"),
    ],
    ids=[
        "silent",
        "half a header",
        "half a body",
        "no answer",
        "idle",
        "half of a second request",
        "half a body that nobody reads",
    ],
)
def test_whoever_does_not_go_on_is_ended(port: int, sent: bytes, status: bytes) -> None:
    assert heard(opened(port, sent)).split()[1] == status


@pytest.mark.parametrize(
    "head",
    [HALF, b"POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"],
    ids=["headers", "body"],
)
def test_a_trickle_does_not_move_the_deadline(port: int, head: bytes) -> None:
    client = opened(port, head)
    client.settimeout(0.1)
    began = time.monotonic()
    with client, contextlib.suppress(ConnectionError):
        while time.monotonic() - began < GONE_SECONDS:
            client.send(b"x")
            with contextlib.suppress(TimeoutError):
                if client.recv(1000) == b"":
                    break
    assert time.monotonic() - began < GONE_SECONDS


def test_an_answer_that_nobody_reads_is_cut_off(port: int) -> None:
    client = opened(port, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    _wait(lambda: _is_cut(client), GONE_SECONDS)
    client.close()


def _is_cut(client: socket.socket) -> bool:
    # Sending to a connection that the other side has reset fails; reading would empty the buffer.
    try:
        client.send(b"x")
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 200_000, b"431"),
        (b"GET /" + b"x" * 200_000, b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000, b"400"),
        (CHUNKED + b"\r\n0\r\nX: " + b"x" * 200_000, b"400"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
    ids=["header", "address", "two thousand requests in a row", "trailer", "no HTTP"],
)
def test_what_grows_without_end_is_refused(port: int, sent: bytes, status: bytes) -> None:
    assert re.search(rb"HTTP/1.1 " + status, heard(opened(port, sent)))


def test_one_byte_chunks_are_read(port: int) -> None:
    body = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    sent = CHUNKED + b"Connection: close\r\n\r\n" + body

    assert b'"length":20000' in heard(opened(port, sent))


def test_beyond_the_most_connections_one_is_told_to_come_back(port: int) -> None:
    waiting = [opened(port, b"") for _ in range(LIMITS.connections)]
    answer = heard(opened(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    for client in waiting:
        client.close()

    assert (answer.split()[1], b"Retry-After" in answer) == (b"503", True)
    _wait(lambda: status_of(port, "GET", "/") == 200)


def test_bodies_in_memory_are_bounded_over_all_requests(port: int) -> None:
    headers = b"POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 250000\r\n\r\n"
    waiting = [opened(port, headers + b"x" * 140_000) for _ in range(3)]
    assert status_of(port, "POST", "/length", body=b"x" * 10_000) == 200
    answers = [heard(client).split()[1] for client in waiting]

    assert sorted(answers) == [b"408", b"408", b"503"]
    _wait(lambda: status_of(port, "POST", "/length", body=b"x" * 250_000) == 200)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("LOCALHOST", 200),
        ("[::1]:8080", 200),
        ("tally.example", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("evil.example@127.0.0.1", 400),
        ("", 400),
        ("[", 400),
        ("0.0.0.0", 400),
    ],
)
def test_only_names_that_are_ours_are_answered(port: int, host: str, status: int) -> None:
    assert status_of(port, "GET", "/", {"Host": host}) == status


def test_a_request_without_host_is_refused(port: int) -> None:
    assert heard(opened(port, b"GET / HTTP/1.0\r\n\r\n")).split()[1] == b"400"


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {}, 200),
        ("POST", {"Origin": "http://localhost:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
        ("POST", {"Origin": "http://localhost:3000"}, 403),
        ("POST", {"Origin": "null"}, 403),
        (
            "POST",
            {
                "Origin": "https://evil.example",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Site": "cross-site",
            },
            403,
        ),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
    ],
)
def test_a_foreign_page_may_link_here_and_no_more(
    port: int, method: str, headers: dict[str, str], status: int
) -> None:
    sent = {
        name: value.format(port=port)
        for name, value in {"Host": "localhost:{port}", **headers}.items()
    }

    assert (
        status_of(
            port,
            method,
            "/length" if method == "POST" else "/",
            sent,
            b"x" if method == "POST" else None,
        )
        == status
    )


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://127.0.0.1:{port}", 101), ("http://evil.example", 403), ("http://127.0.0.1:1", 403)],
)
def test_a_websocket_is_opened_by_our_own_page_only(port: int, origin: str, status: int) -> None:
    head = (
        f"GET /socket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin:"
        f" {origin.format(port=port)}\r\nUpgrade: websocket\r\nConnection:"
        " Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key:"
        " dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with opened(port, head.encode()) as client:
        assert int(client.recv(1000).split()[1]) == status


def test_answers_tell_browsers_what_they_may_do(port: int) -> None:
    _, page = answer_of(port, "GET", "/")
    _, refusal = answer_of(port, "GET", "/", {"Host": "evil.example"})

    for headers in (page, refusal):
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert (headers["X-Frame-Options"], headers["Server"]) == ("DENY", None)
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_a_slow_client_does_not_hold_the_end(port: int) -> None:
    with site() as (own, process):
        request = b"POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"
        slow = opened(own, request)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMITS.shutdown_seconds + 8) == 0
        slow.close()
