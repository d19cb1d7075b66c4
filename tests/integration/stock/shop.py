"""One mode of the stock adapter from the first movement to the last, on the real broker."""

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import NamedTuple

import msgspec
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from inventory.movements.movement import StockMovement, encode_movement
from inventory.sync.calls import OPEN_OUTCOMES, CallMode, StockCall, decode_call
from inventory.sync.engine import CALLS, MOVEMENTS, TICKS
from runtime.processor.delivery import AFTER_COMMIT, BEFORE_COMMIT, BETWEEN
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.integration.ingest.conftest import KILLED, Start, starter, stop
from tests.integration.stock.warehouse import Warehouse, new_warehouse
from tests.support.clients.inventory_api import FaultyInventory, served
from tests.support.clients.producers import connected_producer

ADAPTING = "tests.integration.stock.adapting"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MOVES, ITEMS, COUNTED = 60, 8, 100_000
# A Thursday of now; each tick is some minutes after the last.
NOON, MINUTE = 1_795_694_400_000, 60_000
TICK_SECONDS, TICK_MINUTES = 0.2, 4
KILLS = (f"{BEFORE_COMMIT}:4", f"{AFTER_COMMIT}:5", f"{BETWEEN}:3")
# Each movement is applied once in these, whoever else writes.
SHARED: tuple[CallMode, ...] = ("idempotency_key", "compare_and_set")
# Three adapters begin at once, on a busy machine.
SETTLED_SECONDS = 600


class Adapted(NamedTuple):
    """What was told in one mode, what became of it, and what the other system has."""

    mode: CallMode
    movements: list[StockMovement]
    calls: dict[str, StockCall]
    inventory: FaultyInventory

    def expected(self) -> dict[str, int]:
        """Thousandths of each lane, if each movement is applied once."""
        found: dict[str, int] = defaultdict(int)
        for one in self.movements:
            found[one.lane] += one.counted_milli or one.delta_milli or 0
        return dict(found)


@dataclass
class StockShop:
    """A warehouse whose movements are told in one mode."""

    mode: CallMode
    warehouse: Warehouse
    inventory: FaultyInventory
    movements: list[StockMovement] = field(default_factory=list)

    def move(self, count: int) -> None:
        """So many more movements, all acknowledged."""
        settings = self.warehouse.settings
        producer = connected_producer(settings)
        for one in [self._movement(len(self.movements) + number) for number in range(count)]:
            self.movements.append(one)
            partition = partition_number(one.lane, settings.partitions)
            topic = self.warehouse.prefix + MOVEMENTS
            producer.produce(topic, encode_movement(one), one.lane.encode(), partition=partition)
        assert producer.flush(30) == 0

    def calls(self) -> dict[str, StockCall]:
        """The calls as they are stored, by movement."""
        kept = map(decode_call, self.warehouse.kept(CALLS).values())
        return {one.movement_id: one for one in kept if isinstance(one, StockCall)}

    def is_settled(self) -> bool:
        """Whether every movement has come to its end, and whatever else is called for."""
        calls = self.calls()
        told = {one.movement_id for one in self.movements}
        return told <= calls.keys() and not any(
            one.outcome in OPEN_OUTCOMES for one in calls.values()
        )

    @contextmanager
    def clock(self) -> Iterator["StockClock"]:
        """Time passes by itself, much faster than it does."""
        clock = StockClock(self.warehouse)
        thread = Thread(target=clock.run, daemon=True)
        thread.start()
        try:
            yield clock
        finally:
            clock.stopped.set()
            thread.join(600)

    def _movement(self, number: int) -> StockMovement:
        is_count = self.mode == "absolute" and number < ITEMS
        return StockMovement(
            movement_id=f"pos:367:1:0:{number}#1",
            store_id="367",
            item_id=f"item {number % ITEMS}",
            delta_milli=None if is_count else -1000,
            counted_milli=COUNTED if is_count else None,
            kind="count" if is_count else "sale",
            happened_at=f"2026-11-26T{number // 60:02}:{number % 60:02}:00.000Z",
            receipt=f"pos:367:1:0:{number}",
            index=1,
            of=1,
            source="receipts",
        )


@dataclass
class StockClock:
    """Ticks of a warehouse, one in each partition; `days` are added to what they tell."""

    warehouse: Warehouse
    stopped: Event = field(default_factory=Event)
    days: int = 0
    number: int = 0

    def run(self) -> None:
        """Tick until stopped."""
        settings = self.warehouse.settings
        producer = connected_producer(settings)
        while not self.stopped.wait(TICK_SECONDS):
            self.number += 1
            at = NOON + (self.days * 24 * 60 + self.number * TICK_MINUTES) * MINUTE
            value = msgspec.json.encode({"n": self.number, "at": at})
            for partition in range(settings.partitions):
                producer.produce(self.warehouse.prefix + TICKS, value, b"t", partition=partition)
            assert producer.flush(30) == 0


def adapted(mode: CallMode, settings: Settings, folder: Path) -> Adapted:
    """What comes of movements that are told in a mode, while processes are killed."""
    inventory = FaultyInventory(Random(7), others_write=mode in SHARED)
    with (
        served(inventory) as port,
        new_warehouse(settings) as warehouse,
        starter(variables(mode, settings, folder, port)) as start,
    ):
        shop = StockShop(mode, warehouse, inventory)
        with shop.clock() as clock:
            last = _killed(shop, start)
            # Some calls of the last process are to fail too.
            _until(lambda: len(shop.calls()) >= MOVES and inventory.has_failed(), SETTLED_SECONDS)
            inventory.is_well = True
            _until(shop.is_settled, SETTLED_SECONDS)
            if mode == "absolute":
                clock.days += 1
                known = len(shop.calls())
                _until(
                    lambda: len(shop.calls()) >= known + ITEMS and shop.is_settled(),
                    SETTLED_SECONDS,
                )
            assert stop(last) == 0
        return Adapted(mode, shop.movements, shop.calls(), inventory)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Return when it holds; each look reads a topic from its begin."""
    looking = retry(
        retry=retry_if_result(lambda holds: not holds),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(1),
    )
    looking(condition)()


def _killed(shop: StockShop, start: Start) -> "subprocess.Popen[str]":
    """The process that stays, after one kill after the other with movements between."""
    share = MOVES // (len(KILLS) + 1)
    for kill in KILLS:
        shop.move(share)
        process = start(ADAPTING, shop.warehouse.prefix, kill)
        assert process.wait(600) == KILLED, f"{kill}: {process.communicate()[1][-4000:]}"
    shop.move(MOVES - len(shop.movements))
    return start(ADAPTING, shop.warehouse.prefix)


def variables(mode: CallMode, settings: Settings, folder: Path, port: int) -> dict[str, str]:
    """The environment of an adapter that tells a system at this port."""
    secrets = folder / f"{mode}-secrets.json"
    secrets.write_text(json.dumps({"inventory": SECRET}), "utf-8")
    secrets.chmod(0o600)
    target = folder / f"{mode}-target.json"
    # Longer than anything is tried for here: what it ends is shown by the laws.
    told = {"mode": mode, "secrets": ["inventory"], "key_life_hours": 720}
    target.write_text(json.dumps({**told, "url": f"http://127.0.0.1:{port}"}), "utf-8")
    return {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_KEYSPACE": "test_stock_adapter",
        "TALLY_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "TALLY_WEBHOOK_SECRETS": str(secrets),
        "TALLY_STOCK_TARGET": str(target),
    }
