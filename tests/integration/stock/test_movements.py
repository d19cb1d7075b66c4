"""Stock movements on the real broker, killed in the midst of groups: complete ones only, each once,
and of each article what the stores have sent."""

from collections.abc import Iterator

import pytest

from inventory.movements.movement import StockMovement
from inventory.movements.step import SEEN
from tally.config.settings import Settings
from tests.integration.ingest.conftest import Start, starter, stop
from tests.integration.stock.killing import played
from tests.integration.stock.warehouse import HeardMovements, Warehouse, new_warehouse
from tests.support.sources.purchases import Purchases

COUNT, SEED = 400, 13
KILLS = ("after_record:1:20", "after_record:2:3", "after_record:5:2", "after_commit:2")


@pytest.fixture(scope="module")
def begin(kafka: str, settings: Settings) -> Iterator[Start]:
    """Starts processes whose transactions are small, so that some are done before a kill."""
    own = {"TALLY_KAFKA": settings.kafka, "TALLY_KEYSPACE": "test_stock"}
    with starter({**own, "TALLY_TRANSACTION_RECORDS": "20"}) as begin:
        yield begin


@pytest.fixture(scope="module")
def warehouse(kafka: str, settings: Settings) -> Iterator[Warehouse]:
    """The topics of the module."""
    with new_warehouse(settings) as made:
        yield made


@pytest.fixture(scope="module")
def sent() -> Purchases:
    """What the stores send."""
    return Purchases(COUNT, SEED)


@pytest.fixture(scope="module")
def heard(warehouse: Warehouse, begin: Start, sent: Purchases) -> HeardMovements:
    """What a subscriber has of it, after all kills."""
    warehouse.send(sent.sent)
    assert stop(played(warehouse, begin, KILLS)) == 0
    return warehouse.heard()


def by_id(heard: HeardMovements) -> list[StockMovement]:
    """Its movements in an order of their own: that of two partitions is nobody's."""
    return sorted(heard.movements, key=lambda one: one.movement_id)


def test_every_group_is_complete_and_no_movement_comes_twice(
    heard: HeardMovements, sent: Purchases
) -> None:
    assert sent.redelivered > 0
    assert len(heard.movements) > COUNT
    assert (heard.partial(), heard.twice()) == ([], 0)


def test_of_each_article_there_is_what_the_stores_have_sent(
    heard: HeardMovements, sent: Purchases
) -> None:
    assert heard.levels() == sent.levels()


def test_negative_control_who_reads_what_was_not_committed_has_parts_of_groups(
    heard: HeardMovements, warehouse: Warehouse
) -> None:
    uncommitted = warehouse.heard("read_uncommitted")

    assert len(uncommitted.movements) > len(heard.movements)
    assert uncommitted.partial() != []


def test_every_event_is_kept_once_with_its_first_copy(
    heard: HeardMovements, warehouse: Warehouse, sent: Purchases
) -> None:
    told = {one.receipt for one in heard.movements}
    kept = {key.decode() for key in warehouse.kept(SEEN)}

    assert told <= kept
    assert len(kept) <= len(sent.sent) - sent.redelivered


def test_a_restarted_process_moves_nothing_of_what_comes_again(
    heard: HeardMovements, warehouse: Warehouse, begin: Start, sent: Purchases
) -> None:
    warehouse.send(sent.sent[-40:])
    assert stop(played(warehouse, begin, ())) == 0

    assert by_id(warehouse.heard()) == by_id(heard)
