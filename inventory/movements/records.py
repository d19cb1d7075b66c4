"""The effect of the canonical records of receipts and stock documents on stock.

It follows the rules and numbers of `stock_on_hand` (docs/adr/021-stock.md), so that the movements
of an article add up to that metric.
"""

from collections.abc import Iterable
from functools import cache

import msgspec
from msgspec import Struct

from inventory.movements.deduplication import LineEffect, StockEvent
from inventory.movements.movement import MovementKind
from runtime.registry.receipt_lines import StoredLine, load_adding_rules, parse_lines
from serving.questions.catalogue import StockAt, metric
from tally.algebra.level import has_count


class _CanonicalRecord(Struct, frozen=True):
    """The fields common to all canonical records."""

    event_id: str
    store_id: str
    happened_at: str
    fingerprint: str


class ReceiptRecord(_CanonicalRecord, frozen=True):
    """The canonical record of a receipt; `rule`: the rule by which it adds nothing, if any."""

    kind: str
    lines: tuple[StoredLine, ...]
    rule: str | None = None


class DocumentRecord(_CanonicalRecord, frozen=True):
    """The record of a document's line; `stock_milli`: thousandths, encoded as Level takes it."""

    kind: MovementKind
    item_id: str
    stock_milli: int


_RECEIPT = msgspec.json.Decoder(ReceiptRecord)
_DOCUMENT = msgspec.json.Decoder(DocumentRecord)


@cache
def stock_formula() -> StockAt:
    """The formula of the metric `stock_on_hand`. Raises BadSource for an invalid catalogue."""
    formula = metric("stock_on_hand").stock
    # The catalogue defines this metric only as a stock metric.
    assert formula is not None
    return formula


def receipt_event(value: bytes, source: str) -> StockEvent:
    """The receipt of a canonical record's value. Raises msgspec.DecodeError."""
    record = _RECEIPT.decode(value)
    lines = () if record.rule is not None else record.lines
    return _event(record, source, _stock_moves(record.kind, lines))


def receipt_moves(kind: str, lines: Iterable[str]) -> tuple[LineEffect, ...]:
    """The moves of a filed receipt of a kind; `lines`: the JSON lines of its canonical record."""
    return _stock_moves(kind, parse_lines(lines))


def document_event(value: bytes, source: str) -> StockEvent:
    """The line of a document of a canonical record's value. Raises msgspec.DecodeError."""
    record = _DOCUMENT.decode(value)
    # The lowest bit distinguishes a count from a movement.
    amount = record.stock_milli >> 1
    if has_count([[0, record.stock_milli]]):
        move = LineEffect(1, record.item_id, "count", counted_milli=amount)
    else:
        move = LineEffect(1, record.item_id, record.kind, amount)
    return _event(record, source, (move,))


def _stock_moves(kind: str, lines: Iterable[StoredLine]) -> tuple[LineEffect, ...]:
    # Places as printed on the receipt, counting lines that move nothing too.
    moves = (_stock_move(place, line, kind) for place, line in enumerate(lines, start=1))
    return tuple(move for move in moves if move is not None)


def _stock_move(place: int, line: StoredLine, kind: str) -> LineEffect | None:
    """The move of a receipt line; None if it moves nothing, such as a means of payment."""
    units = stock_formula().sales.raw_total(load_adding_rules().sum_parts(kind, [line.facts]))
    if not units:
        return None
    # A returned item on a sales receipt counts like one on a receipt of its own.
    return LineEffect(place, line.item_id, "return" if units < 0 else "sale", -units)


def _event(record: _CanonicalRecord, source: str, moves: tuple[LineEffect, ...]) -> StockEvent:
    return StockEvent(
        record.event_id, record.store_id, record.happened_at, record.fingerprint, source, moves
    )
