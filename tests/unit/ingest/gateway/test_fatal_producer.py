"""A producer that can send nothing any more ends its process, so that whoever watches starts a
new one."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from tests.support import http
from tests.unit.ingest.gateway.doomed_gateway import DoomedProducer
from tests.unit.ingest.gateway.stand_ins import Client
from tests.unit.ingest.gateway.test_gateway import post
from tests.unit.ingest.messages import POS, RULES, encoded


@pytest.mark.parametrize("where", ["produce", "report", "callback"])
def test_a_fatal_error_is_noticed_wherever_the_client_library_tells_it(where: str) -> None:
    async_producer = AsyncProducer(
        lambda note: DoomedProducer(where, {"error_cb": note}), InFlightLimit(10, 10_000)
    )
    watch = BacklogMonitor(lambda: WaitingMessages(0, None), lambda _waiting: None)
    client = Client(build_app(async_producer, RULES, watch))

    assert client.request("GET", "/healthz").status_code == 200
    assert post(client, encoded(POS)).status_code == 503
    async_producer.close(0)
    assert async_producer.fatal == "sequence is out of order"
    assert client.request("GET", "/healthz").status_code == 503


def test_the_gateway_then_ends_with_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {
        **os.environ,
        "TALLY_HOME": str(tmp_path),
        "TALLY_GATEWAY": address,
        "TALLY_KAFKA": "127.0.0.1:9",
    }
    command = [sys.executable, "-m", "tests.unit.ingest.gateway.doomed_gateway", "report"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_served(address)
        assert http.post(f"http://{address}/v1/events/pos", json=POS).status_code == 503
        assert process.wait(20) == 1
        assert process.stderr is not None
        assert "gateway: sequence is out of order; start the gateway again" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def _wait_until_served(address: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            http.get(f"http://{address}/healthz").raise_for_status()
            return
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
