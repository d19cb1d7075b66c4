"""The normaliser stands still for five times the retention: what was acknowledged stays, and the
gateway says when it is enough."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from ops.local.processes.probes import is_healthy
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import kafka_admin, kafka_consumer, kafka_producer
from tally.config.settings import Settings
from tests.conftest import make_site
from tests.controls.processes.clock_janitor import ClockJanitor
from tests.integration.ingest.conftest import (
    Start,
    committed_messages,
    starter,
    stop,
    wait_until,
    wait_until_read,
)
from tests.unit.ingest.messages import encoded, pos

if TYPE_CHECKING:
    from ops.local.processes.service import Site

RETENTION_SECONDS, LIMIT_SECONDS, OUTAGE_SECONDS = 60, 240, 300
PAUSE_SECONDS = 0.5
RAW = "posTransactionTopic"


@dataclass
class Sent:
    """Receipt numbers that were acknowledged, and when the gateway first refused, in seconds of
    the outage."""

    accepted: list[int] = field(default_factory=list)
    refused_after: list[float] = field(default_factory=list)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Site"]:
    variables = {
        "TALLY_RAW_RETENTION_SECONDS": str(RETENTION_SECONDS),
        "TALLY_RAW_BACKLOG_SECONDS": str(LIMIT_SECONDS),
        "TALLY_KEYSPACE": "test_retention",
    }
    made = make_site(tmp_path_factory.mktemp("retention"), **variables)
    control.up(made, catalogue.select_services(["kafka"]), print)
    yield made
    control.down(made, catalogue.select_services(()), print)


@pytest.fixture(scope="module")
def begin(site: "Site") -> Iterator[Start]:
    addresses = {"TALLY_KAFKA": site.settings.kafka, "TALLY_GATEWAY": site.settings.gateway}
    with starter({**site.environment, **addresses}) as begin:
        yield begin


@pytest.fixture(scope="module")
def outage(site: "Site", begin: Start) -> Sent:
    """Five minutes in which the gateway takes receipts and nobody reads them."""
    begin("ingest.gateway")
    wait_until(lambda: is_healthy(site.settings.gateway))
    sent = Sent()
    send(site.settings, sent, range(20), time.monotonic())
    normalise_all(begin, site.settings)
    begun = time.monotonic()
    number = 20
    while time.monotonic() - begun < OUTAGE_SECONDS:
        send(site.settings, sent, [number], begun)
        number += 1
        time.sleep(PAUSE_SECONDS)
    return sent


def send(settings: Settings, sent: Sent, numbers: "range | list[int]", begun: float) -> None:
    for number in numbers:
        request = urllib.request.Request(
            f"http://{settings.gateway}/v1/events/pos",
            encoded(pos(transaction_id=number)),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30):
                sent.accepted.append(number)
        except urllib.error.HTTPError as error:
            with error:
                assert (error.code, int(error.headers["Retry-After"]) > 0) == (503, True)
            sent.refused_after.append(time.monotonic() - begun)


def normalise_all(begin: Start, settings: Settings) -> None:
    """The normaliser from its start until it has read everything, and its end."""
    ready = settings.home / f"ready-{uuid4().hex}"
    process = begin("ingest.normaliser", TALLY_READY_FILE=str(ready))
    wait_until(ready.exists)
    wait_until_read(settings, "normaliser", [RAW])
    assert stop(process) == 0


def test_nothing_that_was_acknowledged_is_lost(site: "Site", begin: Start, outage: Sent) -> None:
    normalise_all(begin, site.settings)

    counted = {
        int(json.loads(message.value() or b"")["transaction_id"])
        for message in committed_messages(site.settings, "sales")
    }
    lost = set(outage.accepted) - counted
    print(f"{len(outage.accepted)} acknowledged, {len(lost)} of them lost")
    assert (lost, len(counted) > RETENTION_SECONDS) == (set(), True)


def test_gateway_refuses_before_its_limit_is_passed(outage: Sent) -> None:
    assert outage.refused_after and min(outage.refused_after) <= LIMIT_SECONDS
    print(
        f"first 503 after {min(outage.refused_after):.0f} s of the outage; limit {LIMIT_SECONDS} s"
    )


def test_control_that_deletes_by_the_clock_loses_what_was_acknowledged(site: "Site") -> None:
    topic = f"control-{uuid4().hex}"
    admin = kafka_admin(site.settings)
    admin.create_topics([NewTopic(topic, site.settings.partitions, 1)])[topic].result(30)
    stopped = Event()
    janitor = Thread(target=ClockJanitor(site.settings, topic, [topic]).run, args=(stopped,))
    janitor.start()
    acknowledged = send_slowly(site.settings, topic, 2 * RETENTION_SECONDS)
    stopped.set()
    janitor.join(60)

    lost = acknowledged - kept(site.settings, topic)
    print(
        f"deleted by the clock: {lost} of {acknowledged} acknowledged records that nobody had read"
    )
    assert lost > 0


def send_slowly(settings: Settings, topic: str, seconds: float) -> int:
    """How many records were acknowledged."""
    producer, count = kafka_producer(settings), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        producer.produce(topic, str(count).encode())
        assert producer.flush(30) == 0
        count += 1
        time.sleep(PAUSE_SECONDS)
    return count


def kept(settings: Settings, topic: str) -> int:
    """How many records the topic still has."""
    consumer = kafka_consumer(settings, "test-kept")
    spans = [
        consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
        for number in range(settings.partitions)
    ]
    consumer.close()
    return sum(end - first for first, end in spans)
