"""How many pages strangers may have made for them."""

import asyncio
from collections import Counter

import httpx
from starlette.responses import PlainTextResponse

from serving.dashboard.admission import MOST_AT_ONCE, Admission


def statuses(path: str, times: int) -> Counter[int]:
    app = Admission(PlainTextResponse("made"))

    async def asked() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://tally"
        ) as client:
            return [await client.get(path) for _ in range(times)]

    return Counter(answer.status_code for answer in asyncio.run(asked()))


def test_pages_are_made_at_a_rate_and_the_others_told_to_come_back() -> None:
    found = statuses("/", 10 * MOST_AT_ONCE)

    assert MOST_AT_ONCE <= found[200] <= 3 * MOST_AT_ONCE
    assert found[200] + found[503] == 10 * MOST_AT_ONCE


def test_a_page_that_is_not_there_costs_as_much() -> None:
    assert statuses("/nowhere", 10 * MOST_AT_ONCE)[503] > 0


def test_answers_of_the_api_and_files_are_not_held_back() -> None:
    assert (
        statuses("/v1/stores", 200)
        == statuses("/_nicegui/some.js", 200)
        == statuses("/healthz", 200)
        == {200: 200}
    )
