"""Stock movements killed after each record of a group and at each moment of a transaction: complete
groups only, each once, and of each article what the stores have sent.

By default that are 10,000 purchases, some minutes. Fewer:
`make test-chaos ARGS="--purchases 400 -k stock_kills"`.
"""

from collections.abc import Iterator
from random import Random

import pytest

from runtime.processor.delivery import FAILPOINTS
from tally.config.settings import Settings
from tests.controls.processes.crashing_stock import AFTER_RECORD
from tests.integration.ingest.conftest import Start, starter, stop
from tests.integration.stock.killing import played
from tests.integration.stock.warehouse import Warehouse, new_warehouse
from tests.support.sources.purchases import MAX_LINES, REDELIVERED_OF, Purchases

SEED = 2026
FEW = 300
# After each j-th record of groups that have more, and at each moment of a transaction.
KILLS = [
    *(f"{AFTER_RECORD}:{record}:{nth}" for record in range(1, MAX_LINES) for nth in (1, 9)),
    *(f"{name}:2" for name in FAILPOINTS),
]
FEW_KILLS = [f"{AFTER_RECORD}:{record}:3" for record in range(1, 4)]


@pytest.fixture
def warehouse(kafka: str, settings: Settings) -> Iterator[Warehouse]:
    """Topics of the test."""
    with new_warehouse(settings) as made:
        yield made


@pytest.fixture
def begin(kafka: str, settings: Settings) -> Iterator[Start]:
    """Starts processes whose transactions are small, so that some are done before a kill."""
    own = {"TALLY_KAFKA": settings.kafka, "TALLY_KEYSPACE": "test_stock"}
    with starter({**own, "TALLY_TRANSACTION_RECORDS": "20"}) as begin:
        yield begin


def test_killed_after_each_record_of_a_group_there_are_complete_groups_only(
    pytestconfig: pytest.Config, warehouse: Warehouse, begin: Start
) -> None:
    sent = Purchases(int(pytestconfig.getoption("--purchases")), SEED)
    kills = [*KILLS]
    Random(SEED).shuffle(kills)
    share = len(sent.sent) // 2
    warehouse.send(sent.sent[:share])
    assert stop(played(warehouse, begin, kills[: len(kills) // 2])) == 0
    warehouse.send(sent.sent[share:])
    assert stop(played(warehouse, begin, kills[len(kills) // 2 :])) == 0

    heard, uncommitted = warehouse.heard(), warehouse.heard("read_uncommitted")
    moved = len(heard.movements)
    print(
        f"{sent.count} purchases, {sent.redelivered} redelivered, {len(kills)} kills:"
        f" {moved} movements; uncommitted {len(uncommitted.movements)},"
        f" of which {len(uncommitted.partial())} groups are in parts or twice"
    )
    assert sent.redelivered == sent.count // REDELIVERED_OF
    assert (heard.partial(), heard.twice()) == ([], 0)
    assert heard.levels() == sent.levels()
    # Negative control: who reads what no transaction has committed has parts, and some twice.
    assert len(uncommitted.partial()) > 0


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_negative_control_outside_of_a_transaction_movements_double_or_are_lost(
    delivery: str, warehouse: Warehouse, begin: Start
) -> None:
    sent = Purchases(FEW, SEED)
    warehouse.send(sent.sent)
    assert stop(played(warehouse, begin, FEW_KILLS, TALLY_DELIVERY=delivery)) == 0

    heard = warehouse.heard()
    print(f"{delivery}: {heard.twice()} movements twice, {len(heard.partial())} groups in parts")
    assert heard.levels() != sent.levels()
    assert heard.twice() > 0 if delivery == "at_least_once" else heard.partial()
