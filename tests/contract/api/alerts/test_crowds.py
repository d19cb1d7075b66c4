"""Many clients at once: each bound holds from the moment it is looked at, and no crowd stands in
the way of another question."""

import asyncio
import json
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event

import pytest
from fastapi import FastAPI

from alerting.rules.versions import RuleHistory
from alerting.stream.place import StreamPosition
from serving.storage.tables import Activity
from tally.config.settings import Settings
from tally.families.family import Family
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.clients.measured_requests import (
    MAX_BYTES,
    MAX_PROCESSOR_SECONDS,
    RawAnswer,
    RawRequest,
    send,
)
from tests.support.evaluation.evaluating import BUSY, ListedRules, in_force
from tests.support.evaluation.simulating import simulations_over
from tests.support.serving.serving_example import NEW, SETTLED, example
from tests.support.serving.serving_world import MemoryViews
from tests.support.stack.nominal_processor import slowness
from web.api.alerts.stream import MAX_STREAMS
from web.api.app import create_app

SECONDS = 20.0
RULES = ListedRules(in_force(BUSY, "2026-11-20T00:00"))
METRIC = RawRequest("GET", f"/v1/metrics/revenue?store=367&from={SETTLED}&to={NEW}")
SIMULATION = RawRequest(
    "POST",
    "/v1/rules/busy/simulate",
    json.dumps({"from": SETTLED, "to": NEW, "store": ["406"]}).encode(),
)
STREAM = RawRequest("GET", "/v1/alerts/stream")


class StuckRules(ListedRules):
    """Rules whose topic does not answer before it is released."""

    def __init__(self) -> None:
        super().__init__(in_force(BUSY, "2026-11-20T00:00"))
        self.released, self.reads = Event(), 0

    def read(self, until: int | None = None) -> RuleHistory:
        self.reads += 1
        assert self.released.wait(SECONDS)
        return super().read(until)


class GatedFeed(MemoryFeed):
    """A feed that says where it is once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def current_position(self) -> StreamPosition:
        await self.gate.wait()
        return await super().current_position()


class GatedViews(MemoryViews):
    """Views that tell which stores are active once the gate is open; `begun` counts the askers."""

    def __init__(self) -> None:
        super().__init__(example())
        self.gate, self.begun = asyncio.Event(), 0

    async def active_stores(self, family: Family) -> list[Activity]:
        self.begun += 1
        await self.gate.wait()
        return await super().active_stores(family)


def crowd(
    app: FastAPI, request: RawRequest, size: int, hung_up: asyncio.Event | None = None
) -> list[asyncio.Task[RawAnswer]]:
    return [asyncio.create_task(send(app, request, hung_up)) for _ in range(size)]


async def settled(
    tasks: Sequence[asyncio.Task[RawAnswer]], is_settled: Callable[[int], bool]
) -> list[RawAnswer]:
    """The answers that there are once their number is the wanted one."""
    async with asyncio.timeout(SECONDS):
        while not is_settled(sum(task.done() for task in tasks)):
            await asyncio.sleep(0)
    return [task.result() for task in tasks if task.done()]


def test_a_metric_does_not_wait_for_askers_of_rules_while_their_topic_is_stuck() -> None:
    views, rules = MemoryViews(example()), StuckRules()
    app = create_app(Settings(), views, MemoryFeed(), simulations_over(views, rules))

    async def asked() -> tuple[RawAnswer, list[RawAnswer]]:
        askers = crowd(app, RawRequest("GET", "/v1/rules"), 50)
        await asyncio.sleep(0)
        try:
            metric = await asyncio.wait_for(send(app, METRIC), SECONDS / 2)
            assert not any(task.done() for task in askers)
        finally:
            rules.released.set()
        return metric, await asyncio.gather(*askers)

    metric, told = asyncio.run(asked())

    assert metric.status == 200
    assert Counter(one.status for one in told) == {200: 50}
    assert {len(json.loads(one.body)["rules"]) for one in told} == {1}
    assert rules.reads == 1


def test_of_1500_streams_at_once_256_are_open() -> None:
    feed = GatedFeed()
    views = MemoryViews(example())
    app = create_app(Settings(), views, feed, simulations_over(views, RULES))

    async def opened() -> tuple[list[RawAnswer], float, RawAnswer]:
        hung_up = asyncio.Event()
        began = time.process_time()
        streams = crowd(app, STREAM, 1_500, hung_up)
        refused = await settled(streams, lambda done: done >= 1_500 - MAX_STREAMS)
        feed.gate.set()
        await asyncio.sleep(0)
        spent = time.process_time() - began
        # A client that hangs up gives its place back, heard or not.
        hung_up.set()
        await asyncio.gather(*streams)
        # Its stream ends with the feed.
        feed.end()
        return refused, spent, await send(app, STREAM)

    refused, spent, after = asyncio.run(opened())

    assert Counter(one.status for one in refused) == {503: 1_500 - MAX_STREAMS}
    assert {one.headers["retry-after"] for one in refused} == {"5"}
    assert after.status == 200
    assert spent <= MAX_PROCESSOR_SECONDS * slowness()


def test_streams_that_cannot_begin_leave_no_place_taken() -> None:
    feed = MemoryFeed()
    feed.is_away = True
    views = MemoryViews(example())
    app = create_app(Settings(), views, feed, simulations_over(views, RULES))

    async def asked() -> tuple[list[RawAnswer], RawAnswer]:
        away = await asyncio.gather(*crowd(app, STREAM, 2 * MAX_STREAMS))
        feed.is_away = False
        feed.end()
        return away, await send(app, STREAM)

    away, after = asyncio.run(asked())

    assert Counter(one.status for one in away) == {503: 2 * MAX_STREAMS}
    assert after.status == 200


def test_of_1000_simulations_that_hang_up_none_is_left_for_the_next() -> None:
    views = GatedViews()
    app = create_app(Settings(), views, MemoryFeed(), simulations_over(views, RULES))

    async def asked() -> tuple[list[RawAnswer], list[RawAnswer], RawAnswer]:
        hung_up = asyncio.Event()
        simulations = crowd(app, SIMULATION, 1_000, hung_up)
        refused = await settled(simulations, lambda done: done >= 995)
        hung_up.set()
        left = await asyncio.wait_for(asyncio.gather(*simulations), SECONDS)
        views.gate.set()
        return refused, left, await send(app, SIMULATION)

    tracemalloc.start()
    began = time.process_time()
    refused, left, after = asyncio.run(asked())
    spent, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # One is computed and four wait.
    assert Counter(one.status for one in refused) == {429: 995}
    assert {one.headers["retry-after"] for one in refused} == {"5"}
    assert Counter(one.status for one in left) == {429: 995, 499: 5}
    assert (after.status, len(json.loads(after.body)["stores"])) == (200, 1)
    # The first and the last: those that waited have never begun.
    assert views.begun == 2
    most_seconds = 2 * MAX_PROCESSOR_SECONDS * slowness()
    assert (spent <= most_seconds, peak <= MAX_BYTES) == (True, True)


@pytest.mark.parametrize("status", [404, 422])
def test_a_simulation_that_is_refused_leaves_no_turn_taken(status: int) -> None:
    views = MemoryViews(example())
    app = create_app(Settings(), views, MemoryFeed(), simulations_over(views, RULES))
    wrong = {
        404: RawRequest("POST", "/v1/rules/nobody/simulate", SIMULATION.body),
        422: RawRequest("POST", SIMULATION.target, b"{}"),
    }[status]

    async def asked() -> Counter[int]:
        return Counter([(await send(app, wrong)).status for _ in range(20)])

    assert asyncio.run(asked()) == {status: 20}
