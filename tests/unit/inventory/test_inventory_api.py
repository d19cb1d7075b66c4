"""What is asked of the other system, as it arrives there, and what its answers are taken for."""

import asyncio
import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from random import Random
from typing import Any

import pytest
from msgspec import structs

from inventory.movements.movement import StockMovement
from inventory.sync.calls import CallAnswer, CallAttempt, CallMode
from inventory.sync.target import InventoryApi, StockTarget
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundCaller
from runtime.outbound.signing import signature
from tests.support.clients.inventory_api import FaultyInventory, served
from tests.unit.inventory.moved import engine_of, movement

NOW = 1_795_694_400.7
KEY = b"k" * 32
LOOPBACK = parse_networks("127.0.0.0/8")


@dataclass
class Listening(FaultyInventory):
    """A system without faults that keeps what it was asked: method, path, headers and body."""

    heard: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def react(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.heard.append((handler.command, handler.path, headers, body))
        super().react(handler, body)


def first_call(mode: CallMode, one: StockMovement) -> CallAttempt:
    engine = engine_of(mode)
    engine.process_movement(one)
    [asked] = engine.begin_attempts([]).calls
    return asked


def asked_of(system: FaultyInventory, mode: CallMode, asked: CallAttempt) -> CallAnswer:
    with served(system) as port:
        target = StockTarget(url=f"http://127.0.0.1:{port}/", mode=mode, secrets=("inventory",))
        caller = OutboundCaller(LOOPBACK, lambda _names: [KEY], now=lambda: NOW, seconds=5.0)
        api = InventoryApi(target, caller)
        return asyncio.run(api.make_call(asked))


def well() -> Listening:
    return Listening(Random(1), is_well=True)


def test_an_adjustment_carries_its_key_and_a_signature() -> None:
    system, asked = well(), first_call("idempotency_key", movement())

    answer = asked_of(system, "idempotency_key", asked)

    [(method, path, headers, body)] = system.heard
    assert (answer.status, method, path) == (200, "POST", "/adjustments")
    assert headers["idempotency-key"] == movement().movement_id
    named, stamp = headers["webhook-id"], int(headers["webhook-timestamp"])
    assert headers["webhook-signature"] == signature(KEY, named, stamp, body)
    told: dict[str, Any] = json.loads(body)
    assert (told["delta_milli"], told["movement_id"]) == (-1000, movement().movement_id)
    assert system.book.levels == {"367|milk": -1000}


@pytest.mark.parametrize("item", ["Käse 1 l", "a\r\nb: c", "x" * 900, "../%2e", '"|'])
def test_whatever_an_article_is_called_it_arrives(item: str) -> None:
    system = well()
    one = movement(item_id=item, movement_id=f"inventory:367:DN:{item}#1")

    for mode in ("idempotency_key", "compare_and_set"):
        assert asked_of(system, mode, first_call(mode, one)).status == 200

    assert system.book.levels[f"367|{item}"] == -1000


def test_a_look_tells_level_version_and_in_doubt_whether_the_reference_is_known() -> None:
    system, asked = well(), first_call("compare_and_set", movement())
    doubted = asked._replace(was_in_doubt=True)

    first = asked_of(system, "compare_and_set", asked)
    unknown = asked_of(system, "compare_and_set", doubted)
    system.book.put_if(movement().movement_id, "367|milk", -1000, "v0")
    known = asked_of(system, "compare_and_set", doubted)

    assert (first.quantity_milli, first.version, first.is_known) == (0, "v0", False)
    assert (unknown.version, unknown.is_known) == ("v0", False)
    assert (known.quantity_milli, known.version, known.is_known) == (-1000, "v1", True)
    # The version first: what is still on its way when nothing is found there names an older one.
    paths = [path.partition("?")[0] for _, path, _, _ in system.heard]
    assert paths[-2:] == ["/levels", "/references/pos%3A367%3A1%3A0%3A1%231"]


def test_a_level_is_set_on_its_version_and_refused_on_another() -> None:
    system, asked = well(), first_call("compare_and_set", movement())
    call = structs.replace(asked.call, version="v0", quantity_milli=7000)
    setting = asked._replace(call=call, step="set")

    statuses = [asked_of(system, "compare_and_set", setting).status for _ in range(2)]

    assert statuses == [200, 412]
    assert system.book.levels["367|milk"] == 6000


def test_an_address_that_may_not_be_called_is_not_called() -> None:
    target = StockTarget(url="https://127.0.0.1:1/", mode="compare_and_set", secrets=("inventory",))
    api = InventoryApi(target, OutboundCaller((), lambda _names: [KEY]))

    assert asyncio.run(api.make_call(first_call("compare_and_set", movement()))).is_refused


def test_who_takes_no_connection_has_certainly_taken_nothing() -> None:
    with served(well()) as port:
        pass
    target = StockTarget(
        url=f"http://127.0.0.1:{port}", mode="compare_and_set", secrets=("inventory",)
    )
    api = InventoryApi(target, OutboundCaller(LOOPBACK, lambda _names: [KEY]))

    assert asyncio.run(api.make_call(first_call("compare_and_set", movement()))).is_unsent


def test_what_is_no_level_is_none() -> None:
    class Odd(FaultyInventory):
        def _answer(self, *_asked: object) -> tuple[int, dict[str, Any]]:
            return 200, {"quantity_milli": "many"}

    answer = asked_of(
        Odd(Random(1), is_well=True), "compare_and_set", first_call("compare_and_set", movement())
    )

    assert (answer.status, answer.version) == (200, None)
