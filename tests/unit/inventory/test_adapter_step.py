"""The adapter's step beside a real system on loopback: stored first, then called."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from random import Random

import pytest

from inventory.movements.movement import encode_movement
from inventory.sync.__main__ import build_calls
from inventory.sync.calls import StockCall, decode_call
from inventory.sync.engine import CALLS, MOVEMENTS, TICKS, StockAdapter
from inventory.sync.target import InventoryApi, StockTarget
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundCaller
from runtime.processor.step import Input, Output
from tally.alerts.tick import Tick
from tally.errors import UnrecoverableError
from tests.integration.ingest.conftest import wait_until
from tests.support.clients.inventory_api import FaultyInventory, served
from tests.unit.inventory.moved import NOON, movement

LANE = "367|milk"


@contextmanager
def adapter_of(
    system: FaultyInventory, stores: tuple[str, ...] = ("367",)
) -> Iterator[StockAdapter]:
    """An adapter that tells the system of these stores, each movement under a key."""
    with served(system) as port:
        target = StockTarget(
            url=f"http://127.0.0.1:{port}",
            mode="idempotency_key",
            secrets=("inventory",),
            stores=stores,
        )
        networks = parse_networks("127.0.0.0/8")
        caller = OutboundCaller(networks, lambda _names: [b"k" * 32], seconds=5.0)
        api = InventoryApi(target, caller)
        with closing(
            StockAdapter(build_calls(api), target.make_engine, target.covers_store)
        ) as step:
            yield step


def record_of(topic: str, value: bytes) -> Input:
    return Input(topic, 1, 0, NOON, b"k", value)


def given(step: StockAdapter) -> list[Output]:
    """What a movement and a tick become, with what is to begin."""
    tick = Tick(n=1, at=NOON).value
    outputs = [*step.process(record_of(TICKS, tick))]
    outputs += step.process(record_of(MOVEMENTS, encode_movement(movement())))
    return [*outputs, *step.before_commit()]


def outcomes(outputs: Sequence[Output]) -> list[str]:
    kept = [decode_call(one.value or b"") for one in outputs]
    return [one.outcome for one in kept if isinstance(one, StockCall)]


def well() -> FaultyInventory:
    return FaultyInventory(Random(1), is_well=True)


def test_nobody_is_called_before_it_is_stored_that_he_is() -> None:
    system = well()
    with adapter_of(system) as step:
        assert outcomes(given(step)) == ["intent", "called"]
        assert system.happened["calls"] == 0
        step.on_commit()
        wait_until(lambda: system.book.log)
        ended = wait_until(step.before_commit)

    assert outcomes(ended) == ["applied"]
    assert {(one.topic, one.partition) for one in ended} == {(CALLS, 1)}
    assert system.book.levels == {LANE: -1000}


def test_what_was_aborted_is_called_when_it_has_come_again() -> None:
    system = well()
    with adapter_of(system) as step:
        given(step)
        step.restore([])
        step.on_commit()
        assert system.happened["calls"] == 0
        given(step)
        step.on_commit()
        wait_until(lambda: system.book.log)

    assert system.book.applied() == {movement().movement_id: 1}


def test_who_restores_an_attempt_without_an_outcome_calls_again_under_the_same_key() -> None:
    system = well()
    with adapter_of(system) as first:
        stored = given(first)
        first.on_commit()
        wait_until(lambda: system.book.log)
    with adapter_of(system) as second:
        second.restore([Input(CALLS, 1, n, 1, one.key, one.value) for n, one in enumerate(stored)])
        assert second.before_commit() == []
        second.process(record_of(TICKS, Tick(n=2, at=NOON + 60_000).value))
        assert outcomes(second.before_commit()) == ["called"]
        second.on_commit()
        assert outcomes(wait_until(second.before_commit)) == ["applied"]

    assert system.book.applied() == {movement().movement_id: 1}
    assert [*system.bodies.values()] == [{*system.bodies[movement().movement_id]}]


def test_of_other_stores_nobody_is_called() -> None:
    with adapter_of(well(), stores=("406",)) as step:
        assert outcomes(given(step)) == []


@pytest.mark.parametrize("topic", [MOVEMENTS, TICKS])
def test_a_record_that_nobody_understands_stops_nothing(topic: str) -> None:
    with adapter_of(well()) as step:
        assert step.process(record_of(topic, b'{"n": "x"}')) == []


def test_a_state_of_another_version_is_refused() -> None:
    with (
        adapter_of(well()) as step,
        pytest.raises(UnrecoverableError, match=f"{CALLS}, partition 1"),
    ):
        step.restore([Input(CALLS, 1, 7, NOON, b"a", b"{}")])
