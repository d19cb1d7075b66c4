"""The normaliser as a process: it deletes behind itself; before a raw topic with a gap it
refuses, until the gap is accepted."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from runtime.connect import kafka_admin, kafka_consumer
from tests.integration.ingest.conftest import (
    Start,
    committed_messages,
    starter,
    stop,
    wait_until,
    wait_until_read,
)
from tests.support.clients.producers import connected_producer
from tests.unit.ingest.messages import TRAFFIC, encoded, pos

if TYPE_CHECKING:
    from ops.local.processes.service import Site

RAW = "posTransactionTopic"
REFUSED = 78


@pytest.fixture
def begin(own_site: "Site") -> Iterator[Start]:
    with starter(dict(own_site.environment)) as begin:
        yield begin


def cli(begin: Start, *arguments: str) -> dict[str, Any]:
    process = begin("ops.cli", "gaps", *arguments, "--json")
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_running_normaliser_deletes_what_it_has_read_and_what_is_old(
    begin: Start, own_site: "Site"
) -> None:
    settings = own_site.settings
    producer = connected_producer(settings)
    for number in range(20):
        producer.produce(
            "raw-traffic", encoded({**TRAFFIC, "device_id": f"door-{number}"}), partition=1
        )
    assert producer.flush(30) == 0
    consumer = kafka_consumer(settings, "test-kept")
    process = begin("ingest.normaliser", TALLY_RAW_RETENTION_SECONDS="2")

    # The last one stays: by it the log is known again.
    wait_until(
        lambda: (
            consumer.get_watermark_offsets(TopicPartition("raw-traffic", 1), timeout=10) == (19, 20)
        )
    )
    consumer.close()
    assert stop(process) == 0
    assert len(committed_messages(settings, "traffic")) == 20


def test_first_start_over_a_hole_is_refused_until_the_hole_is_accepted(
    begin: Start, own_site: "Site", tmp_path: Path
) -> None:
    settings = own_site.settings
    producer = connected_producer(settings)
    for number in range(10):
        producer.produce(RAW, encoded(pos(transaction_id=number)), partition=2)
    assert producer.flush(30) == 0
    place = TopicPartition(RAW, 2, 4)
    admin = kafka_admin(settings)
    admin.delete_records([place])[place].result(30)
    told, ready = tmp_path / "exit.json", tmp_path / "ready"

    refused = begin("ingest.normaliser", TALLY_EXIT_FILE=str(told))
    assert refused.wait(600) == REFUSED
    [open_gap] = cli(begin, "list")["open"]
    gap = cli(begin, "accept", RAW, "2", "--reason", "retention before the first start")
    going_on = begin("ingest.normaliser", TALLY_READY_FILE=str(ready))
    wait_until(ready.exists)
    wait_until_read(settings, "normaliser", [RAW])
    assert stop(going_on) == 0

    assert f"`tally gaps accept {RAW} 2`" in json.loads(told.read_text("utf-8"))["reason"]
    found = (open_gap[name] for name in ("topic", "partition", "position", "earliest"))
    assert [*found] == [RAW, 2, 0, 4]
    assert (gap["from"], gap["until"], gap["first_arrival"]) == (0, 4, "1970-01-01T00:00:00.000Z")
    assert gap["last_arrival"] <= gap["noted_at"] <= datetime.now(UTC).isoformat()
    assert (gap["topic"], gap["partition"], gap["reason"]) == (
        RAW,
        2,
        "retention before the first start",
    )
    assert len(committed_messages(settings, "sales")) == 6
    assert cli(begin, "list") == {"gaps": [gap], "open": []}
