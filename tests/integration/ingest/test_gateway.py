"""The gateway as a process on a real broker: what was answered 202 is in the raw topic."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from ops.local.processes.probes import is_healthy
from tally.config.settings import Settings
from tests.integration.ingest.conftest import Start, committed_messages, starter, stop, wait_until
from tests.unit.ingest.messages import encoded, pos

STORE = f"store-{uuid4().hex}"


@pytest.fixture
def begin(kafka: str, settings: Settings) -> Iterator[Start]:
    """Starts processes on the shared broker, with the gateway's address."""
    with starter({"TALLY_KAFKA": kafka, "TALLY_GATEWAY": settings.gateway}) as begin:
        yield begin


@pytest.fixture
def gateway(begin: Start, settings: Settings) -> "subprocess.Popen[str]":
    """A running gateway."""
    process = begin("ingest.gateway")
    wait_until(lambda: is_healthy(settings.gateway))
    return process


def post(
    settings: Settings, body: bytes, media_type: str = "application/json"
) -> tuple[int, dict[str, Any]]:
    url = f"http://{settings.gateway}/v1/events/pos"
    request = urllib.request.Request(url, body, {"Content-Type": media_type})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def of_store(number: int) -> bytes:
    return encoded(pos(operation_id=STORE, transaction_id=number))


def stored_ids(settings: Settings) -> list[int]:
    """Receipt numbers in the raw topic, of the tests' own store."""
    messages = committed_messages(settings, "posTransactionTopic")
    own = [
        json.loads(message.value() or b"")
        for message in messages
        if message.key() == STORE.encode()
    ]
    return sorted(message["transaction_id"] for message in own)


def test_accepted_receipts_are_stored_even_if_the_gateway_is_killed_at_once(
    gateway: "subprocess.Popen[str]", settings: Settings
) -> None:
    answer = post(
        settings, b"\n".join(of_store(number) for number in range(500)), "application/x-ndjson"
    )
    gateway.kill()

    assert answer == (202, {"accepted": 500, "rejected": []})
    assert stored_ids(settings) == list(range(500))


def test_gateway_told_to_stop_ends_with_zero(
    gateway: "subprocess.Popen[str]", settings: Settings
) -> None:
    assert post(settings, of_store(1000))[0] == 202
    assert stop(gateway) == 0
    assert 1000 in stored_ids(settings)


def test_gateway_without_brokers_says_send_again(begin: Start, settings: Settings) -> None:
    begin("ingest.gateway", TALLY_KAFKA="127.0.0.1:9")
    wait_until(lambda: is_healthy(settings.gateway))

    status, problem = post(settings, of_store(1001))
    assert (status, problem["status"]) == (503, 503)
