"""The gateway's answers; the producer is a stand-in that acknowledges or refuses as told."""

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from httpx import Response
from prometheus_client import CollectorRegistry, generate_latest

from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.background import LoopLag
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from tests.unit.ingest.gateway.stand_ins import Client, StandInProducer
from tests.unit.ingest.messages import MILK, POS, RULES, TRAFFIC, encoded, pos, with_line

JSON, NDJSON = "application/json", "application/x-ndjson"
REFUSED = KafkaError(KafkaError._MSG_TIMED_OUT, "no broker")


@pytest.fixture
def producer() -> StandInProducer:
    return StandInProducer()


@pytest.fixture
def watch(producer: StandInProducer) -> BacklogMonitor:
    """Looked once; the brokers answer as long as the producer has no error."""

    def look() -> WaitingMessages:
        if producer.error:
            raise KafkaException(producer.error)
        return WaitingMessages(3, None)

    watch = BacklogMonitor(look, lambda _waiting: None)
    watch.refresh()
    return watch


@pytest.fixture
def async_producer(producer: StandInProducer) -> Iterator[AsyncProducer]:
    async_producer = AsyncProducer(
        lambda _note: producer, InFlightLimit(messages=100, bytes=100_000)
    )
    yield async_producer
    async_producer.close(0)


@pytest.fixture
def client(async_producer: AsyncProducer, watch: BacklogMonitor) -> Client:
    return Client(build_app(async_producer, RULES, watch))


def post(
    client: Client, body: bytes, media_type: str = JSON, path: str = "/v1/events/pos"
) -> Response:
    return client.request("POST", path, content=body, headers={"Content-Type": media_type})


def ndjson(*messages: Any) -> bytes:
    return b"\n".join(encoded(message) for message in messages)


def test_good_receipt_is_stored_as_it_came_keyed_by_store(
    client: Client, producer: StandInProducer
) -> None:
    answer = post(client, encoded(POS))

    assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "rejected": []})
    assert producer.stored == [("posTransactionTopic", "1", encoded(POS))]


def test_interval_goes_to_its_own_topic(client: Client, producer: StandInProducer) -> None:
    assert post(client, encoded(TRAFFIC), path="/v1/events/traffic").status_code == 202
    assert producer.stored == [("raw-traffic", "367", encoded(TRAFFIC))]


def test_good_lines_are_stored_and_bad_ones_told_by_number(
    client: Client, producer: StandInProducer
) -> None:
    answer = post(
        client,
        ndjson(POS) + b"\r\n\n" + ndjson(with_line(price="free"), pos(transaction_id=43)),
        NDJSON,
    )

    message = "/transactions/0/price: a number or decimal text like \"12.30\" is wanted, got 'free'"
    errors = [{"field": "/transactions/0/price", "code": "not_a_number", "message": message}]
    assert (answer.status_code, answer.json()) == (
        202,
        {"accepted": 2, "rejected": [{"line": 3, "errors": errors}]},
    )
    assert [value for _, _, value in producer.stored] == [
        encoded(POS),
        encoded(pos(transaction_id=43)),
    ]


BIG = pos(transactions=[{**MILK, "item": "x" * 200}] * 900)


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"{", JSON, 400),
        (b"\xff", JSON, 400),
        (b" \n", NDJSON, 400),
        (encoded(POS), "text/csv", 415),
        (encoded(POS), "", 415),
        (b" " * 5_300_000, JSON, 413),
        (encoded(pos(note="x" * 1_000_000)), JSON, 413),
        (b"{}\n" * 10_001, NDJSON, 413),
        (encoded(pos(kind="gift")), JSON, 422),
        (b"[]", JSON, 422),
        (b"{}\n{}", NDJSON, 422),
        (ndjson(pos(happened_at="2106-01-01T00:00:00Z")), NDJSON, 422),
    ],
)
def test_refusal_is_a_problem_document_and_stores_nothing(
    client: Client, producer: StandInProducer, body: bytes, media_type: str, status: int
) -> None:
    answer = post(client, body, media_type)

    assert (answer.status_code, answer.headers["content-type"], answer.json()["status"]) == (
        status,
        "application/problem+json",
        status,
    )
    assert {"type", "title", "detail", "instance", "errors"} <= answer.json().keys()
    assert producer.stored == []


def test_unacknowledged_message_answers_503_and_when_to_come_back(
    client: Client, producer: StandInProducer
) -> None:
    producer.error = REFUSED
    answer = post(client, encoded(POS))

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize(("messages", "size"), [(90, 0), (1, 99_000)])
def test_too_much_under_way_answers_429_and_stores_nothing(
    client: Client,
    async_producer: AsyncProducer,
    producer: StandInProducer,
    messages: int,
    size: int,
) -> None:
    async_producer._messages, async_producer._bytes = messages, size
    answer = post(client, b"\n".join([encoded(POS)] * 20), NDJSON)

    assert (answer.status_code, answer.headers["retry-after"], producer.stored) == (429, "1", [])


def test_thousand_good_lines_are_taken_in_one_request(
    client: Client, producer: StandInProducer
) -> None:
    answer = post(client, ndjson(*(pos(transaction_id=number) for number in range(1000))), NDJSON)

    assert (answer.json()["accepted"], len(producer.stored)) == (1000, 1000)


def test_health_and_readiness(
    client: Client, watch: BacklogMonitor, producer: StandInProducer
) -> None:
    ready = client.request("GET", "/readyz")
    producer.error = REFUSED
    watch.refresh()
    unready = client.request("GET", "/readyz")

    checks = {
        "check": {"ok": True, "detail": "none under way"},
        "kafka": {"ok": True, "detail": "reachable"},
        "backlog": {"ok": True, "detail": "3 messages wait to be read"},
    }
    assert client.request("GET", "/healthz").json() == {"status": "ok"}
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "checks": checks})
    assert (unready.status_code, unready.json()["checks"]["kafka"]) == (
        503,
        {"ok": False, "detail": "Local: Message timed out"},
    )


def test_lateness_of_the_event_loop_is_told(client: Client) -> None:
    registry = CollectorRegistry()
    lag = LoopLag(registry)
    for seconds in (0.001, 0.03, 0.2, 5.0):
        lag.add(seconds)
    text = generate_latest(registry).decode()

    assert 'lag_seconds_bucket{le="0.01"} 1.0\n' in text
    assert 'lag_seconds_bucket{le="0.1"} 2.0\n' in text
    assert 'lag_seconds_bucket{le="+Inf"} 4.0\n' in text
    assert "tally_gateway_unread_messages 3" in client.request("GET", "/metrics").text


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/v1/nothing", "GET", 404), ("/v1/events/pos", "GET", 405)]
)
def test_unknown_path_and_method_are_problem_documents_too(
    client: Client, path: str, method: str, status: int
) -> None:
    answer = client.request(method, path)

    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    )


def test_api_description_names_the_message_schema(client: Client) -> None:
    body = client.request("GET", "/openapi.json").json()["paths"]["/v1/events/pos"]["post"][
        "requestBody"
    ]

    assert body["content"][JSON]["schema"]["title"] == "POS receipt as stores send it"
    assert json.dumps(body).count("vendor_fiscal_module") >= 2


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([pos(operation_id=store) for store in range(65)], "more than 64 stores"),
        (
            [
                pos(
                    happened_at=f"2017-{1 + day // 28:02}-{1 + day % 28:02}T12:00:00Z",
                    transaction_id=day,
                )
                for day in range(65)
            ],
            "more than 64 days",
        ),
    ],
    ids=["stores", "days"],
)
def test_a_request_is_of_few_stores_and_few_days(
    client: Client, producer: StandInProducer, lines: list[Any], said: str
) -> None:
    refused, taken = post(client, ndjson(*lines), NDJSON), post(client, ndjson(*lines[:64]), NDJSON)

    assert (refused.status_code, said in refused.json()["detail"]) == (413, True)
    assert (taken.json()["accepted"], len(producer.stored)) == (64, 64)


def test_of_many_rejected_lines_the_first_hundred_are_told_and_all_counted(client: Client) -> None:
    answer = post(client, b"{}\n" * 10_000 + encoded(POS), NDJSON)
    refused = post(client, b"{}\n" * 9_999 + encoded(POS), NDJSON)

    assert answer.status_code == 413
    assert (
        refused.json()["accepted"],
        refused.json()["rejected_count"],
        len(refused.json()["rejected"]),
    ) == (1, 9_999, 100)
    assert len(refused.content) <= 64 * 1024


def test_long_names_and_values_do_not_make_a_long_answer(client: Client) -> None:
    bad = {**POS, "happened_at": "\U0001f600" * 10_000}
    answer = post(client, ndjson(*[bad] * 30), NDJSON)

    assert (answer.status_code, len(answer.content) <= 64 * 1024) == (422, True)


@pytest.mark.parametrize(
    "body", [b"x" + b"\n" * 5_000_000, b"{}\n" * 1_700_000], ids=["empty lines", "empty objects"]
)
def test_lines_are_counted_before_anything_is_made_of_them(client: Client, body: bytes) -> None:
    tracemalloc.start()
    answer = post(client, body, NDJSON)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (answer.status_code, "at most 10,000" in answer.json()["detail"]) == (413, True)
    assert peak < 40_000_000
