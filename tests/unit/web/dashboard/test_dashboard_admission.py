"""How many pages strangers may have made for them."""

import asyncio
from collections import Counter

import httpx
import pytest
from starlette.responses import PlainTextResponse

from tests.docs.pages import ROOT
from web.dashboard.page import MAX_AT_ONCE, MAX_CLIENTS, PAGES_A_SECOND, Admission

PAGES = ("/", "/stores", "/rules/{rule_id}", "/rules/{rule_id}/edit")


def statuses(path: str, times: int) -> Counter[int]:
    app = Admission(PlainTextResponse("made"), PAGES)

    async def asked() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://tally"
        ) as client:
            return [await client.get(path) for _ in range(times)]

    return Counter(answer.status_code for answer in asyncio.run(asked()))


def test_pages_are_made_at_a_rate_and_the_others_told_to_come_back() -> None:
    found = statuses("/", 10 * MAX_AT_ONCE)

    assert MAX_AT_ONCE <= found[200] <= 3 * MAX_AT_ONCE
    assert found[200] + found[503] == 10 * MAX_AT_ONCE


@pytest.mark.parametrize("path", ["/stores", "/rules/busy", "/rules/busy/edit"])
def test_every_page_is_bounded(path: str) -> None:
    assert statuses(path, 10 * MAX_AT_ONCE)[503] > 0


@pytest.mark.parametrize(
    "path",
    ["/v1/stores", "/_nicegui/some.js", "/healthz", "/nowhere", "/storesx", "/rules/busy/edit/x"],
)
def test_what_is_no_page_is_not_held_back(path: str) -> None:
    assert statuses(path, 10 * MAX_AT_ONCE) == {200: 10 * MAX_AT_ONCE}


def test_made_up_paths_take_no_turn_from_pages() -> None:
    app = Admission(PlainTextResponse("made"), PAGES)

    async def asked() -> int:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://tally"
        ) as client:
            for _ in range(10 * MAX_AT_ONCE):
                await client.get("/metricsx")
            return (await client.get("/")).status_code

    assert asyncio.run(asked()) == 200


def test_the_bounds_are_those_that_are_promised() -> None:
    words = {2: "twice", 20: "twenty"}
    promise = (
        f"the page, more than {words[int(PAGES_A_SECOND)]} a second"
        f" after the first {words[MAX_AT_ONCE]}, or beyond {MAX_CLIENTS} open ones"
    )

    assert promise in (ROOT / "docs/guarantees.md").read_text("utf-8")
