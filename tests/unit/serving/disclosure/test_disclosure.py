"""What an answer of the API tells of the machines behind it: nothing."""

import asyncio

import httpx

from serving.storage.views import ViewReader
from tally.config.settings import Settings
from web.api.app import create_app

QUESTION = "/v1/metrics/revenue?store=1&from=2017-01-01&to=2017-01-02"


def test_unreachable_tables_are_said_without_address_keyspace_or_driver() -> None:
    settings = Settings(cassandra="127.0.0.1:9", keyspace="kept_secret")
    app = create_app(settings, ViewReader(settings))

    async def asked() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://tally"
        ) as client:
            return [await client.get(path) for path in (QUESTION, "/readyz", "/v1/stores")]

    for answer in asyncio.run(asked()):
        assert answer.status_code == 503
        assert [
            word
            for word in ("127.0.0.1", "kept_secret", "NoHost", "Connection", "Traceback")
            if word in answer.text
        ] == []
