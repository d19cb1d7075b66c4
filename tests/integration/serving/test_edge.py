"""`python -m web` towards browsers: names, origins and headers, on a real socket and without
Cassandra."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.serving.test_process import answers, api, free_port
from tests.support import http

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("edge")
    with api(home, TALLY_CASSANDRA=f"127.0.0.1:{free_port()}") as (_, url):
        answers(f"{url}/healthz", 200)
        yield url


def test_a_name_that_is_not_ours_is_refused(url: str) -> None:
    assert http.get(f"{url}/v1/stores", headers={"Host": "evil.example"}).status_code == 400
    assert http.get(f"{url}/", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    ("origin", "status"), [("http://evil.example", 403), ("null", 403), (None, 101)]
)
def test_the_page_s_socket_opens_for_the_page_alone(
    url: str, origin: str | None, status: int
) -> None:
    host = url.removeprefix("http://")
    name, port = host.split(":")
    head = (
        f"GET {SOCKET} HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin or url}\r\nUpgrade:"
        " websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key:"
        " dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.create_connection((name, int(port)), timeout=30) as client:
        client.sendall(head.encode())
        assert int(client.recv(1000).split()[1]) == status


def test_page_and_answers_carry_what_browsers_need_to_know(url: str) -> None:
    page, answer = http.get(f"{url}/"), http.get(f"{url}/v1/metrics")

    assert (page.status_code, answer.status_code) == (200, 200)
    for one in (page, answer):
        assert one.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in one.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
