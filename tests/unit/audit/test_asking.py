"""How the audit asks the API: page after page, and in one line when there is no answer."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from ops.audit.oracle import open_client, query_parameters
from tally.errors import StackError, TallyError

WINDOW = ("367", datetime(2026, 3, 2, 10, tzinfo=UTC))


class Answers(BaseHTTPRequestHandler):
    """Two pages about waiting_time, and 404 for the rest."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        self.server.asked.append(parse_qs(asked.query))  # type: ignore[attr-defined]
        page = 2 if "after" in asked.query else 1
        following = f"{self.path}&after=1" if page == 1 else None
        is_known = asked.path == "/v1/metrics/waiting_time"
        self.send_response(200 if is_known else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"rows": [{"value": page}], "next": following}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """An API that knows one metric."""
    made = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    made.asked = []  # type: ignore[attr-defined]
    Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def address(server: ThreadingHTTPServer) -> str:
    return f"127.0.0.1:{server.server_address[1]}"


def test_all_pages_of_an_answer_are_read(server: ThreadingHTTPServer) -> None:
    with open_client(address(server)) as ask:
        found = ask("waiting_time", query_parameters(WINDOW), ("queue", "aisle"))

    assert found == [{"value": 1}, {"value": 2}]
    first, second = server.asked  # type: ignore[attr-defined]
    assert first == {
        "store": ["367"],
        "from": ["2026-03-02T10:00:00.000Z"],
        "to": ["2026-03-02T10:15:00.000Z"],
        "grain": ["15m"],
        "by": ["queue,aisle"],
        "limit": ["10000"],
    }
    assert second == {**first, "after": ["1"]}


def test_another_answer_than_200_is_an_error_that_names_the_question(
    server: ThreadingHTTPServer,
) -> None:
    with open_client(address(server)) as ask, pytest.raises(TallyError, match=r"store=367.* 404"):
        ask("happiness", query_parameters(WINDOW), ())


def test_an_api_that_does_not_answer_is_one_line_that_names_the_way_without_it(
    server: ThreadingHTTPServer,
) -> None:
    server.shutdown()
    server.server_close()

    with open_client(address(server)) as ask, pytest.raises(StackError, match="--http 0") as raised:
        ask("waiting_time", query_parameters(WINDOW), ())

    assert "\n" not in str(raised.value)
