"""Faults that people repair kill no movement: of our own side, and 401, 403 and 404."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from msgspec import structs

from inventory.sync.calls import HOUR, CallAnswer, CallChange, CallMode, CallOutcome
from inventory.sync.engine import StockSyncEngine
from inventory.sync.target import InventoryApi, StockTarget
from runtime.outbound.addresses import parse_networks
from runtime.outbound.caller import OutboundCaller
from runtime.outbound.signing import read_signing_keys
from tests.support.clients.inventory_api import FaultyInventory, served
from tests.unit.inventory.moved import calls, count, engine_of, later, movement

ITEMS = ("milk", "bread", "tea")
SECRET = "whsec_" + "a" * 43 + "="


class Outcomes:
    """Ten movements of three articles, each counted before, and what has come of them."""

    def __init__(self, mode: CallMode) -> None:
        self.engine: StockSyncEngine = engine_of(mode)
        self.last: dict[str, CallOutcome] = {}
        for number in range(10):
            item = ITEMS[number % len(ITEMS)]
            one = count(number, 9000) if number < len(ITEMS) else movement(number)
            self._note(self.engine.process_movement(structs.replace(one, item_id=item)))

    def pass_hours(self, hours: int, api: InventoryApi | None, answer: CallAnswer) -> None:
        """Time passes in quarters of an hour, and each call has this answer, or that of an API."""
        for _ in range(4 * hours):
            later(self.engine, HOUR // 4)
            while (begun := self.engine.begin_attempts([])).records:
                self._note(begun.records)
                for one in begun.calls:
                    told = asyncio.run(api.make_call(one)) if api else answer
                    self._note(self.engine.record_answer(one, told))

    def counted(self) -> dict[str, int]:
        return dict(Counter(self.last.values()))

    def _note(self, kept: Sequence[CallChange]) -> None:
        movements = [one for one in calls([*kept]) if one.kind != "reconciliation"]
        self.last |= {one.movement_id: one.outcome for one in movements}


@pytest.mark.parametrize("mode", get_args(CallMode))
@pytest.mark.parametrize(
    "answer",
    [
        CallAnswer(status=401),
        CallAnswer(status=403),
        CallAnswer(status=404),
        CallAnswer(error="10.0.0.1 is inside", is_refused=True),
    ],
)
def test_what_is_repaired_within_hours_is_applied_then(mode: CallMode, answer: CallAnswer) -> None:
    ten = Outcomes(mode)
    ten.pass_hours(8, None, answer)
    assert not {"refused", "unknown"} & {*ten.counted()}, ten.counted()

    ten.pass_hours(14, None, CallAnswer(status=200, quantity_milli=9000, version="a"))

    assert ten.counted() == {"applied": 10}


@pytest.mark.parametrize("status", [400, 409, 410, 422])
def test_what_the_system_refuses_for_good_is_refused_after_three(status: int) -> None:
    ten = Outcomes("compare_and_set")

    ten.pass_hours(22, None, CallAnswer(status=status))

    assert ten.counted() == {"refused": 10}


def test_what_is_never_repaired_is_refused_after_three_days() -> None:
    ten = Outcomes("idempotency_key")

    # One article has four movements, each with three days of its own.
    ten.pass_hours(5 * 80, None, CallAnswer(status=401))

    assert ten.counted() == {"refused": 10}


@pytest.mark.parametrize("mode", ["idempotency_key", "compare_and_set"])
def test_a_secrets_file_that_others_may_read_for_hours_loses_nothing(
    mode: CallMode, tmp_path: Path
) -> None:
    secrets, system = tmp_path / "secrets.json", FaultyInventory(Random(1), is_well=True)
    secrets.write_text(json.dumps({"inventory": SECRET}))
    secrets.chmod(0o644)
    with served(system) as port:
        target = StockTarget(url=f"http://127.0.0.1:{port}", mode=mode, secrets=("inventory",))
        networks = parse_networks("127.0.0.0/8")
        caller = OutboundCaller(networks, partial(read_signing_keys, secrets), seconds=5.0)
        api, ten = InventoryApi(target, caller), Outcomes(mode)

        ten.pass_hours(8, api, CallAnswer())
        assert system.happened["calls"] == 0
        secrets.chmod(0o600)
        ten.pass_hours(14, api, CallAnswer())

    assert ten.counted() == {"applied": 10}
    assert {*system.book.applied().values()} == {1} and len(system.book.applied()) == 10
