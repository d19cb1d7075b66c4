"""The receiver of docs/alerts-webhooks.md does what the page says of it."""

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from tenacity import retry, stop_after_delay, wait_fixed

from alerting.deliver.state.records import alert_body, alert_message_id
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundCaller, OutboundRequest
from runtime.outbound.signing import secret_key
from tests.unit.alerting.deliver.deliveries import alert
from tests.unit.architecture.counts.sources import ROOT

PAGE = ROOT / "docs" / "alerts-webhooks.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = b"o" * 32
LOOPBACK = parse_networks("127.0.0.0/8")


class Running(NamedTuple):
    """The page's receiver as a process, and where it listens."""

    process: "subprocess.Popen[str]"
    port: int

    def call(self, *keys: bytes, sender: OutboundCaller = OutboundCaller(LOOPBACK)) -> int | None:
        """The status of one call."""
        one = alert()
        url = f"http://127.0.0.1:{self.port}/"
        signing = replace(sender, keys=lambda _names: keys)
        request = OutboundRequest("POST", url, body=alert_body(one).encode())
        return asyncio.run(signing.call_signed(request, alert_message_id(one), ())).status

    def printed(self) -> list[str]:
        """What it has printed, once it is ended."""
        self.process.terminate()
        return self.process.communicate(timeout=10)[0].splitlines()


def page_code() -> str:
    """The receiver as it stands on the page."""
    found = re.search(r"```python receiver\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    file = tmp_path / "receiver.py"
    file.write_text(page_code(), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(file), str(port), SECRET]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        _wait_for(port)
        yield Running(process, port)
        process.kill()


@retry(stop=stop_after_delay(20), wait=wait_fixed(0.05), reraise=True)
def _wait_for(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 1):
        pass


def test_a_message_that_comes_again_is_acted_on_once(running: Running) -> None:
    key = secret_key(SECRET)

    statuses = [running.call(key), running.call(key), running.call(OTHER, key)]

    assert statuses == [204] * 3
    assert running.printed() == ["alert.provisional"]


def test_what_is_not_signed_or_was_signed_long_ago_is_refused(running: Running) -> None:
    long_ago = OutboundCaller(LOOPBACK, now=lambda: 1_614_265_330.0)

    statuses = [
        running.call(OTHER),
        running.call(),
        running.call(secret_key(SECRET), sender=long_ago),
    ]

    assert statuses == [401] * 3
    assert running.printed() == []


def test_it_has_about_thirty_lines() -> None:
    lines = [line for line in page_code().splitlines() if line and not line.startswith("import")]

    assert len(lines) <= 35
