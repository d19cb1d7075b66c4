"""When the gateway takes no more, because what it took is not read."""

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from ingest.gateway import backlog
from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer
from ingest.gateway.backlog import BacklogBounds, BacklogMonitor, WaitingMessages
from tests.unit.ingest.gateway.stand_ins import Client, StandInProducer
from tests.unit.ingest.gateway.test_gateway import async_producer as async_producer
from tests.unit.ingest.gateway.test_gateway import post
from tests.unit.ingest.gateway.test_gateway import producer as producer
from tests.unit.ingest.messages import POS, RULES, encoded

BOUNDS = BacklogBounds(seconds=60, bytes=10_000, folder=Path("/"))


@pytest.mark.parametrize(
    ("messages", "age", "said"),
    [
        (0, None, None),
        (10, 0, None),
        (10, 57, None),
        (10, 59, "messages wait to be read for 59 s, at most 60 s"),
        (10, 61, "messages wait to be read for 61 s, at most 60 s"),
        (10, -3600, None),
        (11, 0, "about 11,000 bytes wait to be read, at most 10,000"),
    ],
)
def test_age_and_bytes_of_what_waits_are_bounded(
    messages: int, age: float | None, said: str | None
) -> None:
    waiting = WaitingMessages(messages, None if age is None else time.time() - age)
    refusal = BOUNDS.refusal_reason(waiting, ordinary_bytes=1000)

    assert (refusal is None) == (said is None)
    assert said is None or str(refusal).startswith(said)


def test_a_folder_that_is_not_there_yet_has_the_disk_of_its_parent(tmp_path: Path) -> None:
    assert (
        BacklogBounds(60, 10_000, tmp_path / "not" / "yet").refusal_reason(
            WaitingMessages(0, None), 1000
        )
        is None
    )


def test_a_refusal_is_503_with_its_reason_and_stores_nothing(
    async_producer: AsyncProducer, producer: StandInProducer
) -> None:
    watch = BacklogMonitor(
        lambda: WaitingMessages(11, time.time()),
        lambda waiting: BOUNDS.refusal_reason(waiting, 1000),
    )
    watch.refresh()
    client = Client(build_app(async_producer, RULES, watch))
    answer, ready = post(client, encoded(POS)), client.request("GET", "/readyz")

    assert (answer.status_code, answer.headers["retry-after"], producer.stored) == (503, "30", [])
    assert "about 11,000 bytes wait to be read" in answer.json()["detail"]
    assert (ready.status_code, ready.json()["checks"]["backlog"]["ok"]) == (503, False)


def test_what_is_known_holds_while_the_brokers_are_silent_for_a_moment_and_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [WaitingMessages(0, None)]

    def look() -> WaitingMessages:
        if not looks:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))
        return looks.pop()

    watch = BacklogMonitor(look, lambda waiting: None)
    watch.refresh()
    watch.refresh()
    assert (watch.refusal_reason(), watch.kafka_state()) == (
        None,
        (False, "Local: Broker transport failure"),
    )

    monkeypatch.setattr(backlog, "_VALID_SECONDS", -1.0)
    assert (
        watch.refusal_reason() == "it is not known how much waits to be read; Kafka does not answer"
    )


def test_looks_are_made_until_the_end() -> None:
    seen: list[int] = []

    def look() -> WaitingMessages:
        seen.append(1)
        return WaitingMessages(len(seen), None)

    watch = BacklogMonitor(look, lambda waiting: f"{waiting.messages} wait")
    watch.start()
    deadline = time.monotonic() + 20
    while watch.refusal_reason() is None and time.monotonic() < deadline:
        time.sleep(0.05)

    assert watch.refusal_reason() is not None
    assert watch.stop()
