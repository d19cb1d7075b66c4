"""One attempt at a real receiver on loopback: what arrives, what is answered, and what never is."""

import asyncio
import socket
import ssl
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundAnswer, OutboundCaller, OutboundRequest
from runtime.outbound.signing import signature
from tests.support.stack.nominal_processor import slowness
from tests.unit.alerting.webhooks.receivers import (
    CERTIFICATE,
    TLS_HOST,
    Got,
    Reaction,
    receiver,
    status,
)

LOOPBACK = parse_networks("127.0.0.0/8")
KEYS = (b"k" * 32, b"o" * 32)
NOW = 1_795_694_400.7
BODY = '{"type":"alert.confirmed","ä":1}'.encode()
SENDER = OutboundCaller(LOOPBACK, now=lambda: NOW, seconds=5.0)


def call(url: str, sender: OutboundCaller = SENDER) -> OutboundAnswer:
    signing = replace(sender, keys=lambda _names: KEYS)
    request = OutboundRequest("POST", url, body=BODY)
    return asyncio.run(signing.call_signed(request, "alrt_1_confirmed", ("new", "old")))


def called(react: Reaction, sender: OutboundCaller = SENDER) -> tuple[OutboundAnswer, list[Got]]:
    with receiver(react) as (port, calls):
        return call(f"http://127.0.0.1:{port}/alerts?a=b", sender), calls


def test_what_arrives_is_signed_by_each_key_with_the_instant_of_the_attempt() -> None:
    answer, [got] = called(status(204))

    signed = [signature(key, "alrt_1_confirmed", int(NOW), BODY) for key in KEYS]
    assert answer == OutboundAnswer(status=204)
    assert (got.path, got.body) == ("/alerts?a=b", BODY)
    assert got.headers["webhook-id"] == "alrt_1_confirmed"
    assert got.headers["webhook-timestamp"] == str(int(NOW))
    assert got.headers["webhook-signature"] == " ".join(signed)
    assert got.headers["host"].startswith("127.0.0.1:")
    assert got.headers["content-type"] == "application/json"


@pytest.mark.parametrize("code", [200, 400, 404, 410, 429, 500, 503])
def test_a_status_is_told_as_it_is(code: int) -> None:
    answer, _ = called(status(code, retry_after="120"))

    assert answer == OutboundAnswer(status=code, retry_after=120)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(code: int) -> None:
    with receiver(status(204)) as (port, elsewhere):
        answer, _ = called(status(code, location=f"http://127.0.0.1:{port}/"))

    assert (answer.status, elsewhere) == (code, [])


DRIPS, DRIPPED = 400, list[int]()


def drip(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    """An answer that goes on, a byte at a time; notes which bytes were sent."""
    DRIPPED.clear()
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
        for number in range(DRIPS):
            DRIPPED.append(number)
            handler.wfile.write(b"y")
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        handler.close_connection = True


def flood(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    """An answer without end."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * 65_536)
    except OSError:
        handler.close_connection = True


def hang_up(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    """No answer."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def mumble(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    """What is no HTTP."""
    handler.wfile.write(b"\x00\xff hello\r\n\r\n")
    handler.close_connection = True


def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    begun = time.process_time()

    answer, _ = called(flood)

    assert answer.status == 200
    assert time.process_time() - begun < 3 * slowness()


def test_an_answer_that_comes_byte_by_byte_is_none_after_the_time_out() -> None:
    answer, calls = called(drip, OutboundCaller(LOOPBACK, seconds=0.5))

    assert (answer.status, answer.is_refused, len(calls)) == (None, False, 1)
    # All of them take forty times the time-out.
    assert 0 < len(DRIPPED) < DRIPS


@pytest.mark.parametrize("react", [hang_up, mumble])
def test_an_answer_that_is_none_is_none(react: Reaction) -> None:
    answer, calls = called(react)

    assert (answer.status, answer.is_refused, len(calls)) == (None, False, 1)
    assert answer.error


def test_nobody_there_is_no_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        answer = call(f"http://127.0.0.1:{taken.getsockname()[1]}/")

    assert (answer.status, answer.is_refused) == (None, False)


def test_an_address_inside_is_not_called() -> None:
    with receiver(status(204)) as (port, calls):
        answers = [
            call(f"{scheme}://{host}:{port}/", OutboundCaller())
            for scheme in ("http", "https")
            for host in ("127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]")
        ]

    assert [answer.is_refused for answer in answers] == [True] * 8
    assert calls == []


class Lookups:
    """Name look-ups: this name is at these addresses, the first time and the next times."""

    def __init__(self, name: str, *found: str) -> None:
        self.name, self.found, self.asked = name, [*found], 0
        self.real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host not in (self.name, self.name.encode()):
            return self.real(host, port, *rest, **more)
        self.asked += 1
        address = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        return self.real(address, port, *rest, **more)


def test_a_name_is_looked_up_once_so_no_second_answer_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups = Lookups("rebind.test", "10.9.8.7", "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", lookups)
    with receiver(status(204)) as (port, calls):
        answer = call(f"http://rebind.test:{port}/")

    assert (answer.is_refused, calls, lookups.asked) == (True, [], 1)
    monkeypatch.setattr(socket, "getaddrinfo", Lookups("rebind.test", "127.0.0.1", "10.9.8.7"))
    with receiver(status(204)) as (port, calls):
        assert call(f"http://rebind.test:{port}/").status == 204
    assert calls[0].headers["host"] == f"rebind.test:{port}"


@pytest.mark.parametrize(("name", "expected"), [(TLS_HOST, 204), ("other.test", None)])
def test_the_certificate_has_to_be_that_of_the_name_and_not_of_the_address(
    monkeypatch: pytest.MonkeyPatch, name: str, expected: int | None
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Lookups(name, "127.0.0.1"))
    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
    sender = OutboundCaller(LOOPBACK, tls=trusted)
    with receiver(status(204), tls=True) as (port, calls):
        answer = call(f"https://{name}:{port}/", sender)

    assert (answer.status, len(calls)) == (expected, int(expected is not None))


def test_a_certificate_of_nobody_known_is_no_answer() -> None:
    with receiver(status(204), tls=True) as (port, calls):
        answer = call(f"https://127.0.0.1:{port}/")

    assert (answer.status, answer.is_refused, calls) == (None, False, [])


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver(status(502)) as (port, proxied):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        answer, _ = called(status(204))

    assert (answer.status, proxied) == (204, [])
