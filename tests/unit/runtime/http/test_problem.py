"""A refusal is a problem document, whichever of the applications refuses."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from runtime.http.answers import problem_response
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.unit.ingest.gateway.stand_ins import StandInProducer
from tests.unit.ingest.messages import RULES
from web.api.app import create_app


def asked(app: FastAPI, method: str, path: str) -> httpx.Response:
    """The application's answer, as a client that its server answers gets it."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://tally") as client:
            return await client.request(method, path)

    return asyncio.run(ask())


def test_document_says_what_where_and_what_else_is_given() -> None:
    answer = problem_response("/v1/x", 409, "it moved", headers={"Retry-After": "5"}, next="/v1/y")

    assert (answer.status_code, answer.media_type, answer.headers["retry-after"]) == (
        409,
        "application/problem+json",
        "5",
    )
    assert httpx.Response(409, content=bytes(answer.body)).json() == {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "detail": "it moved",
        "instance": "/v1/x",
        "errors": [],
        "next": "/v1/y",
    }


@pytest.fixture
def api() -> FastAPI:
    """The API over tables that cannot be reached."""
    settings = Settings(cassandra="127.0.0.1:9")
    return create_app(settings, ViewReader(settings))


@pytest.fixture
def gateway() -> Iterator[FastAPI]:
    """A gateway that fails at whatever asks how much waits."""
    async_producer = AsyncProducer(lambda _note: StandInProducer(), InFlightLimit(1, 1))
    watch = BacklogMonitor(lambda: WaitingMessages(0, None), lambda _waiting: None)
    watch.kafka_state = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    yield build_app(async_producer, RULES, watch)
    async_producer.close(0)


def test_api_tells_which_methods_a_path_takes(api: FastAPI) -> None:
    answer = asked(api, "POST", "/v1/stores")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_failure_of_the_gateway_is_a_problem_document_without_its_cause(gateway: FastAPI) -> None:
    answer = asked(gateway, "GET", "/readyz")

    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "gateway's log" in answer.json()["detail"] and "division" not in answer.text
