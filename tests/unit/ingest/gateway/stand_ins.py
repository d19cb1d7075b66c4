"""A producer without a broker, and a client without a socket: for the gateway's own rules."""

import asyncio
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from tests.support.serving.published import unlike


class StandInProducer:
    """Keeps what it is given; acknowledges at the next poll, with an error if it has one."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, str, bytes]] = []
        self.error: KafkaError | None = None
        self.waiting: list[Callable[[Any, Any], None]] = []

    def produce(
        self, topic: str, value: bytes, key: str, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        self.stored.append((topic, key, value))
        self.waiting.append(on_delivery)

    def poll(self, _timeout: float) -> None:
        while self.waiting:
            self.waiting.pop()(self.error, None)

    def flush(self, _timeout: float) -> int:
        return len(self.waiting)


class Client:
    """Requests to the application without a socket; each answer has to be as it is published."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._transport = app, ASGITransport(app)

    def request(self, method: str, path: str, **options: Any) -> Response:
        async def ask() -> Response:
            async with AsyncClient(transport=self._transport, base_url="http://gateway") as client:
                return await client.request(method, path, **options)

        answer = asyncio.run(ask())
        wrong = unlike(self._app, answer)
        assert not wrong, wrong
        return answer
