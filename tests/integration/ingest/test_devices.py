"""Vendors' devices at the gateway as a process, and the normaliser behind it, on a real broker."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ops.dead_letters import dead_letters, replay
from ops.local.processes.probes import is_healthy
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    Start,
    committed_messages,
    starter,
    stop,
    wait_until,
    wait_until_read,
)

if TYPE_CHECKING:
    from ops.local.processes.service import Site

PUSHED = """{"logics_data": {"package_info": {"id": %d}, "sensor_info": {
  "serial_number": "00:6E:02:00:00:01", "time": "2026-03-02T10:02:01Z"},
  "logics": [{"id": 1, "name": "Entrance", "records": [
    {"from": "2026-03-02T10:00:00Z", "to": "2026-03-02T10:01:00Z",
     "counts": [{"name": "fw", "value": 3}, {"name": "bw", "value": 1}]},
    {"from": "2026-03-02T10:01:00Z", "to": "2026-03-02T10:02:00Z",
     "counts": [{"name": "fw", "value": 4}, {"name": "bw", "value": 0}]},
    {"from": "2026-03-02T10:02:00Z", "to": "2026-03-02T10:03:00Z",
     "counts": [{"name": "fw", "value": 9}, {"name": "bw", "value": 9}]}]}]}}"""


@pytest.fixture
def broker(own_broker: "Site") -> Settings:
    return own_broker.settings


@pytest.fixture
def begin(own_broker: "Site", tmp_path: Path) -> Iterator[Start]:
    """Starts processes on the module's own broker, that read a stores file in `tmp_path`."""
    variables = {
        **own_broker.environment,
        "TALLY_KAFKA": own_broker.settings.kafka,
        "TALLY_STORES_FILE": str(tmp_path / "stores.yaml"),
    }
    with starter(variables) as begin:
        yield begin


def push(settings: Settings, package: int) -> tuple[int, dict[str, Any]]:
    body = (PUSHED % package).encode()
    url = f"http://{settings.gateway}/v1/events/traffic/xovis"
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60) as answer:
        return answer.status, json.load(answer)


def normalise(begin: Start, settings: Settings) -> None:
    process = begin("ingest.normaliser")
    wait_until_read(settings, "normaliser", ["raw-traffic"])
    assert stop(process) == 0


def intervals(settings: Settings) -> list[tuple[str, str, int, bool]]:
    records = [json.loads(one.value() or b"") for one in committed_messages(settings, "traffic")]
    return sorted(
        (one["device_id"], one["happened_at"], one["entries"], one.get("repeat", False))
        for one in records
    )


def test_device_counts_once_whether_it_was_listed_before_it_sent_or_after(
    begin: Start, broker: Settings, tmp_path: Path
) -> None:
    stores = tmp_path / "stores.yaml"
    stores.write_text("", "utf-8")
    gateway = begin("ingest.gateway")
    wait_until(lambda: is_healthy(broker.gateway))

    status, answer = push(broker, package=1)
    normalise(begin, broker)

    assert (status, answer["accepted"], len(answer["rejected"])) == (202, 0, 2)
    assert answer["skipped"] == {"intervals that were not over when they were sent": 1}
    letters = list(dead_letters(broker).values())
    assert [(letter.reason, letter.field) for letter in letters] == [
        ("unknown_sensor", "/sensor")
    ] * 2
    # What is to be listed can be read in the letter.
    assert all("006e02000001:1" in letter.value for letter in letters)

    assert stop(gateway) == 0
    stores.write_text("367: {sensors: {00:6E:02:00:00:01:1: {device_id: door-1}}}", "utf-8")
    begin("ingest.gateway")
    wait_until(lambda: is_healthy(broker.gateway))
    for letter in letters:
        replay(broker, letter, None)
    # The device pushes the range again, as another package.
    assert push(broker, package=2)[1]["accepted"] == 2
    normalise(begin, broker)

    first, second = "2026-03-02T10:00:00.000Z", "2026-03-02T10:01:00.000Z"
    counted = [one[:3] for one in intervals(broker)]
    assert counted == [("door-1", first, 3)] * 2 + [("door-1", second, 4)] * 2
    # The letters and the second push are the same events: the layers count each once.
    ids = {
        json.loads(one.value() or b"")["event_id"] for one in committed_messages(broker, "traffic")
    }
    assert ids == {f"traffic:367:door-1:{first}", f"traffic:367:door-1:{second}"}
