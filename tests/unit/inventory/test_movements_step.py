"""Canonical records of receipts and documents to movements, and what is kept of them."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.inventory.contract import DocumentKind
from inventory.movements.movement import StockMovement, decode_movement
from inventory.movements.step import MOVEMENTS, SEEN, StockMovements
from runtime.processor.step import Input, Output
from tally.config.settings import Settings
from tally.errors import UnrecoverableError
from tally.events.identity import partition_number
from tally.events.receipt_rules import KINDS, SENT_LINE_TYPES
from tests.support.sources.canonical import Canonical, stock_line
from tests.unit.ingest.messages import MILK, pos, receipt
from tests.unit.inventory.moved import NOON

SETTINGS = Settings.load({})
HOURS = SETTINGS.canonical_retention_hours
AT = datetime(2026, 11, 26, 10, tzinfo=UTC)
DOCUMENTS, RECEIPTS = StockMovements(SETTINGS).topics
lines = st.fixed_dictionaries(
    {
        "item": st.sampled_from(["Milk", "Bread"]),
        "price": st.sampled_from([0, 1, -1, 2.5]),
        "amount": st.sampled_from([0, 1, 2, -1, 0.125]),
    },
    optional={"line_type": st.sampled_from(SENT_LINE_TYPES), "cancelled": st.booleans()},
)


def record_of(one: Canonical, offset: int = 0, at: int = NOON) -> Input:
    topic = DOCUMENTS if hasattr(one, "document_id") else RECEIPTS
    return Input(topic, 1, offset, at, one.store_id.encode(), msgspec.json.encode(one))


def moved_by(step: StockMovements, one: Canonical, **place: int) -> list[StockMovement]:
    return movements(step.process(record_of(one, **place)))


def movements(outputs: Any) -> list[StockMovement]:
    return [decode_movement(one.value) for one in outputs if one.topic == MOVEMENTS]


def kept(outputs: Any) -> list[Output]:
    return [one for one in outputs if one.topic == SEEN]


@given(st.sampled_from(KINDS), st.lists(lines, min_size=1, max_size=5))
def test_movements_of_a_receipt_come_to_the_units_that_its_view_counts(
    kind: str, told: list[dict[str, Any]]
) -> None:
    one = receipt(pos(kind=kind, transactions=told))

    found = moved_by(StockMovements(SETTINGS), one)

    assert -sum(each.delta_milli or 0 for each in found) == one.units_milli
    assert all(each.delta_milli for each in found)
    assert [each.index for each in found] == [*range(1, len(found) + 1)]


def test_each_movement_lies_in_the_partition_of_its_article() -> None:
    one = receipt(pos(transactions=[{**MILK, "item": f"Article {n}"} for n in range(9)]))

    outputs = StockMovements(SETTINGS).process(record_of(one))

    places = [(each.key, each.partition) for each in outputs if each.topic == MOVEMENTS]
    assert places == [
        (f"1|Article {n}".encode(), partition_number(f"1|Article {n}", SETTINGS.partitions))
        for n in range(9)
    ]
    [seen] = kept(outputs)
    assert (seen.key, seen.partition) == (one.event_id.encode(), 1)


def test_what_is_left_out_moves_nothing_and_its_finished_receipt_does() -> None:
    step = StockMovements(SETTINGS)

    suspended = moved_by(step, receipt(pos(transaction_status="suspended")))
    finished = moved_by(step, receipt(pos()))

    assert (suspended, len(finished)) == ([], 1)


def test_documents_say_what_was_counted_and_what_came_and_went() -> None:
    step = StockMovements(SETTINGS)
    told: list[tuple[DocumentKind, int, int | None, int | None]] = [
        ("count", 5, None, 5000),
        ("delivery", 24, 24_000, None),
        ("transfer_in", 2, 2000, None),
        ("transfer_out", 3, -3000, None),
    ]

    for kind, units, delta, counted in told:
        [one] = moved_by(step, stock_line("367", f"d-{kind}", kind, AT, m1=units))
        assert (one.kind, one.delta_milli, one.counted_milli) == (kind, delta, counted)
        assert (one.index, one.of, one.source) == (1, 1, DOCUMENTS)


def test_a_copy_moves_nothing_also_after_a_restart() -> None:
    step, other = StockMovements(SETTINGS), StockMovements(SETTINGS)
    [seen] = kept(step.process(record_of(receipt(pos()))))

    other.restore([Input(SEEN, 1, 0, NOON, seen.key, seen.value)])

    assert step.process(record_of(receipt(pos()), offset=1)) == ()
    assert other.process(record_of(receipt(pos()), offset=1)) == ()


def test_what_is_older_than_any_copy_is_deleted_from_the_state() -> None:
    step = StockMovements(SETTINGS)
    [seen] = kept(step.process(record_of(receipt(pos()))))
    later = NOON + HOURS * 3_600_000

    step.process(record_of(receipt(pos(transaction_id=43)), at=later))
    assert step.before_commit() == []
    step.process(record_of(receipt(pos(transaction_id=44)), at=later + 1))

    [gone] = step.before_commit()
    assert (gone.topic, gone.key, gone.value, gone.partition) == (SEEN, seen.key, None, 1)
    step.restore(
        [Input(SEEN, 1, 0, NOON, seen.key, seen.value), Input(SEEN, 1, 1, 0, seen.key, None)]
    )
    assert len(moved_by(step, receipt(pos()))) == 1


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b'{"event_id": 7}', b"\xff"])
def test_a_record_that_nobody_can_read_stops_nothing(value: bytes) -> None:
    step = StockMovements(SETTINGS)

    for topic in (DOCUMENTS, RECEIPTS):
        assert step.process(Input(topic, 1, 0, NOON, b"367", value)) == ()


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(UnrecoverableError, match=f"{SEEN}, partition 1, offset 7"):
        StockMovements(SETTINGS).restore([Input(SEEN, 1, 7, NOON, b"a", b"{}")])
