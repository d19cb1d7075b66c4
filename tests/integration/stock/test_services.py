"""Both services as `tally up` starts them: a receipt is sold, and the other system has it."""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from runtime.process.job import DONE, REFUSED
from tally.config.settings import Settings
from tests.integration.ingest.conftest import starter, stop, wait_until
from tests.integration.stock.shop import NOON, variables
from tests.integration.stock.warehouse import ARRIVED, RECEIPTS
from tests.support.clients.inventory_api import FaultyInventory, served
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import receipt, send

if TYPE_CHECKING:
    from ops.local.processes.service import Site


def tick(settings: Settings, number: int) -> bool:
    """One more tick in each partition."""
    producer = connected_producer(settings)
    value = msgspec.json.encode({"n": number, "at": NOON + number})
    for partition in range(settings.partitions):
        producer.produce("ticks", value, b"t", partition=partition)
    return producer.flush(30) == 0


def test_what_is_sold_is_told_to_the_target(own_broker: "Site", tmp_path: Path) -> None:
    settings = own_broker.settings
    system = FaultyInventory(Random(1), is_well=True)
    ready = {name: tmp_path / f"{name}.ready" for name in ("movements", "sync")}
    with (
        served(system) as port,
        starter(variables("idempotency_key", settings, tmp_path, port)) as start,
    ):
        running = [
            start(f"inventory.{name}", TALLY_READY_FILE=str(file)) for name, file in ready.items()
        ]
        send(settings, RECEIPTS, [receipt("367", number, ARRIVED) for number in (1, 2, 2)])
        wait_until(lambda: all(file.exists() for file in ready.values()))
        numbers = iter(range(1, 10_000))
        wait_until(lambda: tick(settings, next(numbers)) and len(system.book.log) == 2)
        assert [stop(one) for one in running] == [DONE, DONE]

    assert system.book.levels == {"367|m1": -2000}


def test_an_adapter_without_a_target_is_refused_in_one_line(own_broker: "Site") -> None:
    with starter({"TALLY_KAFKA": own_broker.settings.kafka}) as start:
        process = start("inventory.sync")
        told = process.communicate(timeout=600)[1].splitlines()

    assert process.returncode == REFUSED
    assert told[-1].startswith("stock-adapter: TALLY_STOCK_TARGET: names no file")
