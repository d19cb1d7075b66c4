"""Simulations wait in a short row, and leave it with their client."""

import asyncio
from concurrent.futures import CancelledError
from threading import Event

import pytest

from alerting.evaluate.scope.calendar import WindowSpan
from alerting.simulate import service
from alerting.simulate.service import (
    MAX_WAITING,
    SimulationQueue,
    SimulationRequest,
    _thread_reader,
)
from alerting.simulate.store import StoreSimulation
from tally.errors import SimulationsBusy
from tally.time.instants import to_millis
from tests.support.evaluation.evaluating import BUSY, ListedRules, in_force
from tests.support.evaluation.simulating import simulations_over
from tests.support.serving.serving_example import example
from tests.support.serving.serving_world import MemoryViews, at

SECONDS = 20.0


def test_beyond_the_most_waiting_the_next_is_refused() -> None:
    async def asked() -> list[str]:
        turns, ended, said = SimulationQueue(), asyncio.Event(), list[str]()

        async def simulation() -> None:
            try:
                async with turns.acquire():
                    await ended.wait()
                    said.append("done")
            except SimulationsBusy as error:
                said.append(str(error))

        tasks = [asyncio.create_task(simulation()) for _ in range(MAX_WAITING + 3)]
        await asyncio.sleep(0)
        ended.set()
        await asyncio.gather(*tasks)
        return said

    busy = "4 simulations wait already; ask again later"
    assert asyncio.run(asked()) == [busy, busy, *["done"] * (MAX_WAITING + 1)]


def test_a_thread_at_work_for_a_client_that_is_gone_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, stopped, ended = Event(), list[Event](), Event()

    def read_by(snapshot: object, loop: object, stop: Event) -> object:
        stopped.append(stop)
        return _thread_reader(snapshot, loop, stop)  # type: ignore[arg-type]

    def simulated(self: StoreSimulation, *_: object) -> None:
        begun.set()
        assert stopped[0].wait(SECONDS)
        ended.set()

    monkeypatch.setattr(service, "_thread_reader", read_by)
    monkeypatch.setattr(StoreSimulation, "simulate", simulated)
    simulations = simulations_over(
        MemoryViews(example()), ListedRules(in_force(BUSY, "2026-11-20T00:00"))
    )
    span = WindowSpan(to_millis(at("2017-09-19T00:00")), to_millis(at("2017-09-20T00:00")))

    async def asked() -> bool:
        task = asyncio.create_task(simulations.simulate_page(SimulationRequest("busy", span)))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await asyncio.to_thread(ended.wait, SECONDS)

    assert asyncio.run(asked())


def test_a_thread_that_is_told_to_stop_ends_where_it_reads_next() -> None:
    stopped, asked = Event(), list[object]()
    stopped.set()
    # Nothing is asked of either any more.
    read_now = _thread_reader(None, None, stopped)  # type: ignore[arg-type]

    with pytest.raises(CancelledError):
        read_now(asked)  # type: ignore[arg-type]
