"""The demo's live receipt against a gateway and an API that are not as they should be."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ops.local.demo import live
from tally.config.settings import Settings
from tally.errors import StackError

NOW = datetime(2026, 3, 29, 1, 59, 59, 999_000, tzinfo=UTC)


class Answers(BaseHTTPRequestHandler):
    """Takes each receipt and serves it after `delay` questions; refuses with `status`."""

    status, delay, asked, taken = 202, 3, 0, 0

    def do_POST(self) -> None:
        Answers.taken += 1
        self._answer(Answers.status, {"accepted": 1, "rejected": []})

    def do_GET(self) -> None:
        Answers.asked += Answers.taken
        known = Answers.asked > Answers.delay
        self._answer(200 if known else 404, {"rows": [{"value": Answers.taken}]})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test's output is its own."""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings whose gateway and API are one stand-in."""
    for name, value in {"status": 202, "delay": 3, "asked": 0, "taken": 0}.items():
        monkeypatch.setattr(Answers, name, value)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        yield Settings(gateway=address, api=address)
        server.shutdown()


def test_seconds_from_the_receipt_to_its_answer_are_told(settings: Settings) -> None:
    told: list[str] = []

    seconds = live.time_receipt(settings, told.append, NOW)

    assert 0 < seconds < 5
    assert told[0].startswith("a receipt of store live at 2026-03-29T01:59:59.999Z: taken after 0.")


def test_receipt_that_is_never_served_fails_after_the_deadline(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DEADLINE_SECONDS", 0.3)
    Answers.delay = 1_000_000

    with pytest.raises(StackError, match="taken and is not served after 0 s; `tally status`"):
        live.time_receipt(settings, print, NOW)


def test_receipt_that_is_not_taken_fails_with_the_answer(settings: Settings) -> None:
    Answers.status = 503

    with pytest.raises(StackError, match=r"gateway answers 503: .*; see its log"):
        live.time_receipt(settings, print, NOW)


def test_two_receipts_are_two(settings: Settings) -> None:
    first, second = live.live_receipt(NOW), live.live_receipt(NOW.replace(microsecond=998_000))

    assert first["transaction_id"] != second["transaction_id"]
