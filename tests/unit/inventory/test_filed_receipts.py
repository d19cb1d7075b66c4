"""What comes later than events are remembered: a copy moves nothing, a void takes back."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from inventory.movements.filed_receipts import StoredReceiptLookup
from inventory.movements.movement import StockMovement
from inventory.movements.step import StockMovements
from serving.storage.views import StoredReceipt
from tally.errors import TransactionAborted, ViewsUnreachable
from tests.support.serving.raw_receipts import MemoryReceipts, Raw
from tests.support.sources.canonical import Canonical
from tests.unit.ingest.messages import MILK, pos, receipt
from tests.unit.inventory.test_movements_step import HOURS, SETTINGS, kept, moved_by, record_of

HOUR = 3_600_000
CLOSED = datetime(2017, 9, 19, 10, tzinfo=UTC)
IN_TIME = int(CLOSED.timestamp() * 1000) + HOUR
LATE = IN_TIME + (HOURS + 48) * HOUR
VOIDS = {"vendor_fiscal_module": 123, "transaction_id": 42, "happened_at": CLOSED.isoformat()}


class Reader(MemoryReceipts):
    """Rows that can be away, and are counted how often they are read."""

    def __init__(self, *rows: Raw) -> None:
        self.reads, self.is_away = 0, False
        super().__init__([*rows], self._check_there)

    async def _check_there(self) -> None:
        self.reads += 1
        if self.is_away:
            raise ViewsUnreachable("away")


def sold(**changed: Any) -> Canonical:
    told = {"happened_at": CLOSED.isoformat(), "transaction_id": 42}
    return receipt(pos(**(told | changed)))


def voided(**changed: Any) -> Canonical:
    at = (CLOSED + timedelta(minutes=5)).isoformat()
    told = {"kind": "void", "transaction_id": 43, "happened_at": at, "voids": VOIDS}
    return receipt(pos(**(told | changed)))


def row(one: Any, offset: int) -> Raw:
    """A canonical receipt as it was filed."""
    lines = [msgspec.json.encode(line).decode() for line in one.lines]
    stored = StoredReceipt(one.event_id, offset, one.kind, one.currency, lines)
    at = datetime.fromisoformat(one.happened_at)
    return Raw(one.store_id, one.till_id, one.transaction_id, at, stored)


def moved(reader: Reader, *events: tuple[Canonical, int]) -> list[list[StockMovement]]:
    """What each event moves that comes late, at its offset."""
    with closing(StoredReceiptLookup(reader)) as filed:
        step = StockMovements(SETTINGS, filed=filed.find_earlier)
        return [moved_by(step, one, offset=offset, at=LATE) for one, offset in events]


def sums(movements: list[StockMovement]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in movements:
        found[one.item_id] = found.get(one.item_id, 0) + (one.delta_milli or 0)
    return found


def test_a_journal_that_is_sent_again_after_the_retention_moves_nothing() -> None:
    journal = [sold(transaction_id=number) for number in range(40, 60)]
    reader = Reader(*(row(one, number) for number, one in enumerate(journal)))

    again = moved(reader, *((one, 1000 + number) for number, one in enumerate(journal)))

    assert len(again) == 20 and not any(again)
    # The day is read once, and of each receipt its lines.
    assert reader.reads == 1 + len(journal)


def test_control_without_a_look_up_each_of_them_moves_again() -> None:
    step = StockMovements(SETTINGS)

    assert len(moved_by(step, sold(), offset=1000, at=LATE)) == 1


def test_what_has_never_come_before_moves_however_late_it_comes() -> None:
    one = sold()

    # Also where it is filed already, from the very record that is taken.
    for reader in (Reader(), Reader(row(one, 1000)), Reader(row(sold(transaction_id=9), 1))):
        [found] = moved(reader, (one, 1000))
        assert [each.delta_milli for each in found] == [-2000]


def test_a_void_that_comes_after_the_retention_takes_back_what_its_receipt_moved() -> None:
    lines = [{**MILK, "amount": 2}, {**MILK, "item": "Bread", "amount": 1}]
    one = sold(transactions=lines)
    in_time = StockMovements(SETTINGS)
    first = moved_by(in_time, one, offset=5, at=IN_TIME)
    expected = moved_by(in_time, voided(), offset=6, at=IN_TIME)

    [late] = moved(Reader(row(one, 5)), (voided(), 1000))

    assert len(expected) == len(late) == 2
    assert {each.kind for each in late} == {"reversal"}
    assert [each.movement_id for each in late] == [each.movement_id for each in expected]
    assert [each.happened_at for each in late] == [each.happened_at for each in expected]
    assert sums([*first, *late]) == dict.fromkeys(sums(first), 0)


def test_a_second_void_and_a_receipt_behind_its_void_move_nothing() -> None:
    one, void = sold(), voided()

    found = moved(Reader(row(one, 5), row(void, 6)), (voided(), 1000), (one, 1001))

    assert found == [[], []]


def test_a_revision_that_comes_after_the_retention_replaces_what_was_moved() -> None:
    one, revised = sold(), sold(revision=1, transactions=[{**MILK, "amount": 5}])

    [found] = moved(Reader(row(one, 5)), (revised, 1000))

    assert [(each.kind, each.delta_milli) for each in found] == [
        ("reversal", 2000),
        ("sale", -5000),
    ]


def test_a_copy_and_then_its_void_move_once() -> None:
    one = sold()

    found = moved(Reader(row(one, 5)), (one, 1000), (voided(), 1001), (one, 1002))

    assert [sums(each) for each in found] == [{}, {found[1][0].item_id: 2000}, {}]


def test_what_happened_within_the_retention_is_not_looked_up() -> None:
    reader = Reader()
    with closing(StoredReceiptLookup(reader)) as filed:
        step = StockMovements(SETTINGS, filed=filed.find_earlier)
        moved_by(step, sold(), at=IN_TIME + (HOURS - 2) * HOUR)

    assert reader.reads == 0


def test_while_nobody_can_look_it_up_nothing_is_moved_and_it_comes_again() -> None:
    reader, waited = Reader(row(sold(), 5)), list[float]()
    reader.is_away = True
    with closing(StoredReceiptLookup(reader, wait=waited.append)) as filed:
        step = StockMovements(SETTINGS, filed=filed.find_earlier)
        with pytest.raises(TransactionAborted, match="old receipts cannot be read"):
            step.process(record_of(sold(), 1000, LATE))
        reader.is_away = False
        step.restore([])

        assert kept(step.process(record_of(sold(), 1000, LATE))) == []
    assert waited == [1.0]


def test_what_was_filed_is_read_again_after_an_hour() -> None:
    reader, clock = Reader(), [0.0]
    one, other = sold(), sold(transaction_id=77)
    with closing(StoredReceiptLookup(reader, now=lambda: clock[0])) as filed:
        step = StockMovements(SETTINGS, filed=filed.find_earlier)
        moved_by(step, one, offset=1000, at=LATE)
        clock[0] = 3_599.0
        moved_by(step, sold(transaction_id=78), offset=1001, at=LATE)
        assert reader.reads == 1
        clock[0] = 3_600.0
        moved_by(step, other, offset=1002, at=LATE)

    assert reader.reads == 2
