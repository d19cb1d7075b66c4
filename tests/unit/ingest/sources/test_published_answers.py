"""Each answer of the gateway is as OpenAPI publishes it, and each that is published is given."""

import json
from collections.abc import Collection, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException
from fastapi import FastAPI

from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from tests.support.serving.published import references, unlike
from tests.support.sources.poslog import poslog
from tests.unit.ingest.gateway.stand_ins import Client, StandInProducer
from tests.unit.ingest.messages import POS, RULES, encoded, pos

JSON, NDJSON = "application/json", "application/x-ndjson"
RECEIPTS = "/v1/events/pos"


@pytest.fixture
def producer() -> StandInProducer:
    return StandInProducer()


@pytest.fixture
def async_producer(producer: StandInProducer) -> Iterator[AsyncProducer]:
    async_producer = AsyncProducer(
        lambda _note: producer, InFlightLimit(messages=100, bytes=100_000)
    )
    yield async_producer
    async_producer.close(0)


@pytest.fixture
def watch(producer: StandInProducer) -> BacklogMonitor:
    """The brokers answer as long as the producer has no error."""

    def look() -> WaitingMessages:
        if producer.error:
            raise KafkaException(producer.error)
        return WaitingMessages(3, None)

    watch = BacklogMonitor(look, lambda _waiting: None)
    watch.refresh()
    return watch


@pytest.fixture
def app(async_producer: AsyncProducer, watch: BacklogMonitor) -> FastAPI:
    return build_app(async_producer, RULES, watch)


BODIES: list[tuple[bytes, str]] = [
    (encoded(POS), JSON),
    (encoded(POS) + b"\n{}" * 200, NDJSON),
    (b"{", JSON),
    (b" " * 5_300_000, JSON),
    (encoded(POS), "text/csv"),
    (encoded(pos(kind="gift")), JSON),
    (b"{}\n" * 200, NDJSON),
]


def test_each_published_answer_is_given_and_fits(
    app: FastAPI, async_producer: AsyncProducer, watch: BacklogMonitor, producer: StandInProducer
) -> None:
    # The client looks at each answer itself.
    client = Client(app)
    met = {post(client, *body) for body in BODIES} | {get(client, path) for path in STATES}
    async_producer._messages = 90
    met.add(post(client, b"\n".join([encoded(POS)] * 20), NDJSON))
    async_producer._messages = 0
    producer.error = KafkaError(KafkaError._MSG_TIMED_OUT, "no broker")
    watch.refresh()
    met |= {post(client, *BODIES[0]), get(client, "/readyz")}
    async_producer.fatal = "planted"
    met.add(get(client, "/healthz"))

    # Answers to devices, and those of other sources, are looked at below.
    assert published(app, {RECEIPTS, *STATES}) - met == set()


@pytest.mark.parametrize("form", ["traffic/xovis", "pos/poslog"])
def test_each_published_answer_to_a_device_is_given_and_fits(
    form: str,
    app: FastAPI,
    async_producer: AsyncProducer,
    watch: BacklogMonitor,
    producer: StandInProducer,
) -> None:
    client, path = Client(app), f"/v1/events/{form}"
    good, nothing = OF_DEVICES[form]

    def sent(body: bytes, **headers: str) -> int:
        return client.request("POST", path, content=body, headers=headers).status_code

    met = {sent(nothing), sent(good), sent(b"{"), sent(b" " * 5_300_000)}
    met.add(sent(nothing, **{"Content-Encoding": "gzip"}))
    async_producer._messages = 100
    met.add(sent(good))
    async_producer._messages = 0
    producer.error = KafkaError(KafkaError._MSG_TIMED_OUT, "no broker")
    met.add(sent(good))

    operation = app.openapi()["paths"][path]["post"]
    assert met == {int(status) for status in operation["responses"]}


INTERVAL = b"""{"logics_data": {"sensor_info": {"serial_number": "1"}, "logics": [
    {"id": 1, "records": [{"from": "2017-09-19T22:45:00Z", "to": "2017-09-19T22:46:00Z",
     "counts": [{"name": "fw", "value": 3}, {"name": "bw", "value": 1}]}]}]}}"""
DRAWER = b"<POSLog><Transaction><ControlTransaction/></Transaction></POSLog>"
# An event, and what is none.
OF_DEVICES = {
    "traffic/xovis": (INTERVAL, b'{"connection_test": {}}'),
    "pos/poslog": (poslog(POS).encode(), DRAWER),
}
STATES = ("/healthz", "/readyz", "/metrics")


def post(client: Client, body: bytes, media_type: str) -> str:
    headers = {"Content-Type": media_type}
    answer = client.request("POST", RECEIPTS, content=body, headers=headers)
    return f"{RECEIPTS} {answer.status_code}"


def get(client: Client, path: str) -> str:
    return f"{path} {client.request('GET', path).status_code}"


def published(app: FastAPI, paths: Collection[str]) -> set[str]:
    """Every answer of the paths, by path and status."""
    return {
        f"{path} {status}"
        for path, operations in app.openapi()["paths"].items()
        for operation in operations.values()
        for status in operation["responses"]
        if path in paths
    }


def test_every_source_is_answered_alike(app: FastAPI) -> None:
    paths = app.openapi()["paths"]

    receipts, intervals = (paths[path]["post"] for path in (RECEIPTS, "/v1/events/traffic"))
    assert receipts["responses"] == intervals["responses"]


def test_every_shape_that_is_referred_to_is_there(app: FastAPI) -> None:
    document = app.openapi()
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert {one for one in references(document) if one.startswith("#/components")} <= named


def test_every_field_says_what_it_means(app: FastAPI) -> None:
    shapes = app.openapi()["components"]["schemas"]

    assert [
        f"{name}.{field}"
        for name, shape in shapes.items()
        for field, schema in shape["properties"].items()
        if not schema.get("description")
    ] == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"accepted": "1", "rejected": []}, "$.accepted: '1' is not of type 'integer'"),
        ({"accepted": 1}, "$: 'rejected' is a required property"),
        (
            {"accepted": 1, "rejected": [{"line": 1}]},
            "$.rejected[0]: 'errors' is a required property",
        ),
    ],
)
def test_a_planted_wrong_field_is_found(app: FastAPI, body: Any, said: str) -> None:
    request = httpx.Request("POST", f"http://gateway{RECEIPTS}")
    answer = httpx.Response(
        202, content=json.dumps(body), headers={"content-type": JSON}, request=request
    )

    assert unlike(app, answer) == [f"POST {RECEIPTS} 202: {said}"]
