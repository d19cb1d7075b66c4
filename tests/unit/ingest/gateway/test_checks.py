"""Checks beside the event loop: nothing of a vendor's is made on it, and one that hangs is seen."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from ingest.contract.vendor import SkippedPart, VendorBody
from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from ingest.gateway.submission import BodyChecker, Endpoint, endpoints
from runtime.process.job import FAILED
from tests.unit.ingest.gateway.stand_ins import Client, StandInProducer
from tests.unit.ingest.messages import POS, RULES, encoded

NOW = datetime(2017, 9, 19, 23, tzinfo=UTC)
POS_PATH = next(one for one in endpoints() if one.path == "/v1/events/pos")
LOOKS, LOOK_SECONDS = 3, 0.05
# A gateway whose check hangs; with `freed` it comes back after a moment.
HANGING = f"""
import asyncio, sys, threading
from tests.unit.ingest.gateway.test_checks import HangingForm, body
from ingest.gateway.submission import BodyChecker

form, checks = HangingForm(), BodyChecker()
checks.start_watchdog({LOOKS}, {LOOK_SECONDS})
if "freed" in sys.argv:
    form.go_on.set()
for _ in range(20):
    asyncio.run(checks.check(body(), form.endpoint, False))
    threading.Event().wait({LOOK_SECONDS})
checks.close()
"""


class HangingForm:
    """A vendor's form that stands still until it is told to go on, and notes where it runs."""

    def __init__(self) -> None:
        self.go_on, self.has_begun = Event(), Event()
        self.threads: list[str] = []
        plain = POS_PATH
        self.endpoint: Endpoint = replace(
            plain, path=f"{plain.path}/hanging", messages=self._messages
        )

    def _messages(self, _body: VendorBody) -> Iterator[bytes | SkippedPart]:
        self.threads.append(threading.current_thread().name)
        self.has_begun.set()
        self.go_on.wait(60)
        yield SkippedPart("nothing")


def body(content: bytes = b"x") -> VendorBody:
    return VendorBody(content, NOW, RULES)


@pytest.fixture
def form() -> Iterator[HangingForm]:
    form = HangingForm()
    yield form
    form.go_on.set()


def test_a_vendors_body_of_one_byte_is_checked_beside_the_event_loop(form: HangingForm) -> None:
    form.go_on.set()
    checks = BodyChecker()

    found = asyncio.run(checks.check(body(), form.endpoint, is_ndjson=False))

    assert (found.skipped, len(form.threads)) == ({"nothing": 1}, 1)
    assert form.threads[0].startswith("checks")
    checks.close()


def test_a_tills_receipt_is_checked_at_once(form: HangingForm) -> None:
    checks = BodyChecker()
    hanging = threading.Thread(
        target=lambda: asyncio.run(checks.check(body(), form.endpoint, is_ndjson=False))
    )
    hanging.start()
    assert form.has_begun.wait(30)

    # Behind the check that hangs it would wait for ever.
    found = asyncio.run(checks.check(body(encoded(POS)), POS_PATH, is_ndjson=False))

    assert len(found.accepted) == 1
    form.go_on.set()
    hanging.join(30)
    checks.close()


def test_the_age_of_the_check_under_way_is_told(
    form: HangingForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("ingest.gateway.submission.time.monotonic", lambda: now[0])
    checks = BodyChecker()
    hanging = threading.Thread(
        target=lambda: asyncio.run(checks.check(body(), form.endpoint, is_ndjson=False))
    )
    idle = checks.readiness()
    hanging.start()
    assert form.has_begun.wait(30)
    now[0] += 9.5
    early = checks.readiness()
    now[0] += 2.5
    late = checks.readiness()

    assert idle == {"ok": True, "detail": "none under way"}
    assert early == {"ok": True, "detail": "the check under way has run for 9.5 s"}
    assert late == {"ok": False, "detail": "the check under way has run for 12.0 s"}
    assert checks.age_seconds == 12
    form.go_on.set()
    hanging.join(30)
    assert (checks.age_seconds, checks.readiness()["ok"]) == (0.0, True)
    checks.close()


def test_a_gateway_with_an_old_check_is_not_ready(form: HangingForm) -> None:
    watch = BacklogMonitor(lambda: WaitingMessages(0, None), lambda _waiting: None)
    watch.refresh()
    producer = AsyncProducer(lambda _note: StandInProducer(), InFlightLimit(messages=9, bytes=900))
    checks = BodyChecker()
    client = Client(build_app(producer, RULES, watch, checker=checks))
    fresh = client.request("GET", "/readyz")
    checks._started_at = float("-inf")
    old = client.request("GET", "/readyz")

    assert (fresh.status_code, fresh.json()["checks"]["check"]["ok"]) == (200, True)
    assert (old.status_code, old.json()["checks"]["check"]["ok"]) == (503, False)
    assert "tally_gateway_check_seconds +Inf" in client.request("GET", "/metrics").text
    producer.close(0)


@pytest.mark.parametrize(("given", "code"), [("hangs", FAILED), ("freed", 0)])
def test_a_check_that_does_not_end_ends_the_process(given: str, code: int, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", HANGING, given],
        cwd=Path(__file__).parents[4],
        env={"TALLY_EXIT_FILE": str(tmp_path / "exit")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    said = "gateway: one body is checked for 0 s; start the gateway again\n"
    assert (process.returncode, process.stderr) == (code, said if code else "")
    if code:
        assert json.loads((tmp_path / "exit").read_text())["code"] == FAILED
