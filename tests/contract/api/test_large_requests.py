"""What a request holds is bounded, and so is what it costs: small answers, soon, off the loop."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from fastapi import FastAPI

from alerting.rules.rule import rule_to_fields
from runtime.registry.sources import SALES
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.clients.measured_requests import RawAnswer, RawRequest, measured, send
from tests.support.evaluation.evaluating import BUSY, ListedRules, in_force
from tests.support.evaluation.simulating import simulations_over
from tests.support.serving.serving_example import NEW, SETTLED, example
from tests.support.serving.serving_world import MemoryViews
from web.api.app import create_app

MAX_ERROR_BYTES = 64 * 1024
SIMULATE = "/v1/rules/busy/simulate"
SPAN = {"from": SETTLED, "to": NEW}
METRIC = f"/v1/metrics/revenue?from={SETTLED}&to={NEW}"
TRANSACTIONS = f"/v1/metrics/transactions?from={SETTLED}&to={NEW}"


@pytest.fixture
def app(views: MemoryViews) -> Iterator[FastAPI]:
    rules = ListedRules(in_force(BUSY, "2026-11-20T00:00"))
    yield create_app(Settings(), views, MemoryFeed(), simulations_over(views, rules))


def posted(**fields: Any) -> RawRequest:
    body = json.dumps({**SPAN, **fields}, separators=(",", ":")).encode()
    return RawRequest("POST", SIMULATE, body)


def names(count: int) -> str:
    return "&".join(f"a{number}=1" for number in range(count))


def filled(field: str, **more: Any) -> RawRequest:
    """A body with as many fields as fit into the limit of its size."""
    fields = {f"{number:x}": 0 for number in range(7_500)}
    request = posted(**({field: fields} if field else fields), **more)
    assert 60_000 < len(request.body) <= 64 * 1024
    return request


def problem(answer: RawAnswer) -> tuple[int, int, str]:
    """Status, number of errors and the detail of a problem document."""
    found = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status, len(found["errors"]), found["detail"]


BOMBS = {
    "list of a million ones": (posted(store=[1] * 1_000_000), 413, 0, "65,536 bytes"),
    "two megabytes of unknown fields": (
        posted(**{f"a{number}": 1 for number in range(200_000)}),
        413,
        0,
        "65,536 bytes",
    ),
    "rule of 300,000 fields": (
        posted(rule={f"a{number}": 1 for number in range(300_000)}),
        413,
        0,
        "65,536 bytes",
    ),
    "6,000 unknown parameters": (
        RawRequest("GET", f"{METRIC}&store=367&{names(6_000)}"),
        422,
        1,
        "at most 64 parameters",
    ),
    "parameters of an address without any": (
        RawRequest("GET", f"/v1/reports?{names(6_000)}"),
        422,
        1,
        "at most 64 parameters",
    ),
    "64 unknown parameters": (
        RawRequest("GET", f"/v1/stores?{names(64)}"),
        422,
        20,
        "and 44 more",
    ),
    "30,000 wrong stores": (posted(store=[1] * 30_000), 422, 1, "store"),
    "as many fields as fit": (filled(""), 422, 1, "at most 64 fields"),
    "a rule of as many fields as fit": (filled("rule"), 422, 1, "most are unknown"),
    "6,000 times one store": (
        RawRequest("GET", f"{METRIC}&{'&'.join(['store=367'] * 6_000)}"),
        422,
        1,
        "at most 1000 items",
    ),
    "6,000 times one unknown name": (
        RawRequest("GET", f"{METRIC}&store=367&{'&'.join(['a=1'] * 6_000)}"),
        422,
        1,
        "there is no such parameter",
    ),
    "30,000 stores in one value": (
        RawRequest("GET", f"{METRIC}&store={','.join(map(str, range(10_000)))}"),
        422,
        1,
        "store ids",
    ),
    "an instant of 60,000 signs": (
        RawRequest("GET", f"/v1/metrics/revenue?store=367&to={NEW}&from={'%01' * 20_000}"),
        422,
        1,
        "from",
    ),
    "brackets in brackets": (
        RawRequest("POST", SIMULATE, b'{"rule":' + b"[" * 60_000 + b"]" * 5_000),
        400,
        0,
        "parsing the body",
    ),
    "a path of control characters": (RawRequest("GET", f"/v1/{'%01' * 20_000}"), 404, 0, "GET"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_too_large_is_refused_at_little_cost(app: FastAPI, name: str) -> None:
    request, status, errors, said = BOMBS[name]

    answer = measured(app, request)

    print(
        f"{name}: {answer.status}, {len(answer.body):,} bytes,"
        f" {answer.processor_seconds:.3f} s, loop {answer.loop_seconds:.3f} s,"
        f" {answer.peak_bytes / 2**20:.1f} MiB"
    )
    found = problem(answer)
    assert (found[:2], said in found[2]) == ((status, errors), True), found[2][:500]
    assert len(answer.body) <= MAX_ERROR_BYTES
    assert answer.costs == (True, True, True)


def test_a_list_of_a_thousand_stores_is_answered() -> None:
    stores = [f"s{number}" for number in range(1_000)]
    world = example()
    world.activity = [
        (SALES, Activity(one, date(2017, 9, 19), date(2017, 9, 21))) for one in stores
    ]
    asked = "&".join(f"store={one}" for one in stores)
    request = RawRequest("GET", f"{TRANSACTIONS}&grain=1d&{asked}")

    answer = asyncio.run(send(create_app(Settings(), MemoryViews(world)), request))

    # As many as a page has windows for.
    assert (answer.status, len(json.loads(answer.body)["series"])) == (200, 416)


def test_a_body_of_the_most_bytes_is_read(app: FastAPI) -> None:
    rule = rule_to_fields(replace(BUSY, title="x" * 100))
    request = posted(rule=rule)
    whole = RawRequest("POST", SIMULATE, request.body.ljust(64 * 1024))

    assert measured(app, whole).status == 200
    more = RawRequest("POST", SIMULATE, request.body.ljust(64 * 1024 + 1))
    assert measured(app, more).status == 413
