"""Reads the lines of a receipt as a till sends them, and makes the lines of its record."""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from ingest.contract import fields as read
from ingest.contract import numbers
from ingest.contract.wire import JsonObject
from ingest.sources.sales.record import STATUSES, Line, ReceiptStatus
from ingest.sources.sales.rounding import Money, SoldLines, rounding_difference, rounding_line
from tally.algebra.parts import MAX_PART
from tally.errors import RejectedEvent
from tally.events.money import to_minor_units
from tally.events.receipt_rules import SENT_LINE_TYPES, TOTAL_ROUNDING, LineType, ReceiptKind
from tally.people.redact import is_sensitive, redact_value

MAX_LINES = 1000
FIELDS = frozenset(
    ("item", "price", "amount", "total", "item_id", "category", "line_type", "cancelled")
)


# The line types that are no part of a receipt's total.
PAYMENTS = frozenset(("tender", "change", "rounding", "gift_card_redeemed", "tax", TOTAL_ROUNDING))


class SourceLine(msgspec.Struct, frozen=True, array_like=True):
    """One line as it was sent; the fingerprint covers it."""

    item: str
    item_id: str
    category: str | None
    price: Decimal
    amount_milli: int
    total: Decimal


class ReceiptFacts(NamedTuple):
    """The facts of a receipt that the rules need besides its kind and its lines' numbers.

    `lines` has by place the type of the lines that are not plain articles, and whether they were
    cancelled.
    """

    status: ReceiptStatus
    training: bool
    lines: dict[int, tuple[LineType, bool]]


_ARTICLE: tuple[LineType, bool] = ("item", False)
# The standing of a receipt from a till that sends none of these fields.
DEFAULT_FACTS = ReceiptFacts("finished", False, {})


def source_lines(tree: JsonObject, least: int) -> list[SourceLine]:
    """The lines of a message, at least `least` of them. Raises RejectedEvent."""
    lines = read_lines(tree)
    if len(lines) < least:
        raise _wrong_count(lines, least)
    return [_source_line(line, f"/transactions/{position}") for position, line in enumerate(lines)]


def read_receipt_facts(tree: JsonObject) -> ReceiptFacts:
    """The standing of a message's receipt. Raises RejectedEvent."""
    lines = {
        place: _read_line_type(line, f"/transactions/{place}")
        for place, line in enumerate(read_lines(tree))
        if type(line) is dict and ("line_type" in line or "cancelled" in line)
    }
    at = "/transaction_status"
    return ReceiptFacts(
        read.choice(tree.get("transaction_status", "finished"), at, STATUSES),
        read.flag(tree.get("training", False), "/training"),
        {place: what for place, what in lines.items() if what != _ARTICLE},
    )


def read_lines(tree: JsonObject) -> list[Any]:
    """The lines of a message as they were sent. Raises RejectedEvent, also for too many lines."""
    lines = read.require_field(tree, "transactions")
    if type(lines) is not list:
        raise RejectedEvent(
            "wrong_type", "/transactions", "/transactions: a list of lines is wanted"
        )
    if len(lines) > MAX_LINES:
        raise _wrong_count(lines, 0)
    return lines


def convert_lines(
    lines: Sequence[SourceLine], money: Money, standing: ReceiptFacts
) -> tuple[Line, ...]:
    """The lines for the record, without personal data. Raises RejectedEvent."""
    standings = standing.lines
    record_lines = tuple(
        [
            _line(line, money, standings.get(place, _ARTICLE) if standings else _ARTICLE)
            for place, line in enumerate(lines)
        ]
    )
    for place, line in enumerate(record_lines):
        if abs(line.total_minor) > MAX_PART:
            at = f"/transactions/{place}"
            raise RejectedEvent(
                "out_of_range", at, f"{at}: a line is of {MAX_PART:,} minor units at most"
            )
    return record_lines


def build_lines(
    tree: JsonObject,
    source: Sequence[SourceLine],
    money: Money,
    standing: ReceiptFacts,
    kind: ReceiptKind,
) -> tuple[Line, ...]:
    """The lines for the record, with a line for the rounding of the till's total if there is any.

    Raises RejectedEvent.
    """
    lines = convert_lines(source, money, standing)
    pairs = zip(source, lines, strict=True)
    sold = SoldLines(
        [sent.total for sent, line in pairs if is_sold(line)],
        sum(line.total_minor for line in lines if is_sold(line)),
        sum(
            rounding.total_minor
            for rounding in lines
            if rounding.line_type == "rounding" and not rounding.cancelled
        ),
    )
    net_total = (
        numbers.decimal_number(tree["net_total"], "/net_total") if "net_total" in tree else None
    )
    rounded = rounding_difference(sold, money, net_total, kind) if lines else 0
    if rounded:
        lines = (*lines, rounding_line(rounded, money.currency))
    return with_return_signs(lines) if kind == "return" else lines


def line_content(source: Sequence[SourceLine], lines: Sequence[Line]) -> list[Any]:
    """The facts of the lines that change a stored number: no texts and no payments."""
    sold = [
        (sent.item_id, sent.category, sent.amount_milli, sent.total, line.line_type)
        for sent, line in zip(source, lines, strict=False)
        if is_sold(line)
    ]
    rounded = [line.total_minor for line in lines[len(source) :]]
    return [*sold, *rounded]


def with_return_signs(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines of a return with the signs of goods that come back: negative amounts and totals.

    Some tills write them so, others like the lines of a sale. The sum of the receipt decides which,
    so that a discount that is given back keeps its own sign in both cases.
    """
    sold = [line for line in lines if is_sold(line)]
    total = sum(line.total_minor for line in sold) or sum(line.amount_milli for line in sold)
    if total <= 0:
        return tuple(lines)
    return tuple(
        structs.replace(line, amount_milli=-line.amount_milli, total_minor=-line.total_minor)
        for line in lines
    )


def is_sold(line: Line) -> bool:
    """Whether the line is part of the receipt's total."""
    return line.line_type not in PAYMENTS and not line.cancelled


def _wrong_count(lines: Sequence[Any], least: int) -> RejectedEvent:
    return RejectedEvent(
        "out_of_range",
        "/transactions",
        f"/transactions: {least} to {MAX_LINES} lines are taken, got {len(lines)}",
    )


def _source_line(line: Any, at: str) -> SourceLine:
    if type(line) is not dict:
        raise RejectedEvent("wrong_type", at, f"{at}: an object is wanted")
    item = read.text(read.require_field(line, "item", at), f"{at}/item", shortest=1)
    price = numbers.decimal_number(read.require_field(line, "price", at), f"{at}/price")
    # If the till sends the line's total, further decimals of the amount do not change the money.
    amount_milli = numbers.quantity_milli(
        read.require_field(line, "amount", at), f"{at}/amount", is_rounded="total" in line
    )
    at_total = f"{at}/total"
    total = (
        numbers.decimal_number(line["total"], at_total)
        if "total" in line
        else numbers.line_total(price, amount_milli, at_total)
    )
    item_id = read.label(line["item_id"], f"{at}/item_id") if "item_id" in line else item
    category = read.text(line["category"], f"{at}/category") if "category" in line else None
    return SourceLine(item, item_id, category, price, amount_milli, total)


def _read_line_type(line: JsonObject, at: str) -> tuple[LineType, bool]:
    return (
        read.choice(line.get("line_type", "item"), f"{at}/line_type", SENT_LINE_TYPES),
        read.flag(line.get("cancelled", False), f"{at}/cancelled"),
    )


def _line(line: SourceLine, money: Money, standing: tuple[LineType, bool]) -> Line:
    item, item_id, category = line.item, line.item_id, line.category
    if (
        is_sensitive(item)
        or (item_id is not item and is_sensitive(item_id))
        or (category and is_sensitive(category))
    ):
        # A name that was typed in is personal and no article number.
        item, item_id = (
            _redact("item", item),
            _redact("item" if item_id is item else "item_id", item_id),
        )
        category = category and _redact("category", category)
    return Line(
        item=item,
        item_id=item_id,
        price=format(line.price, "f"),
        amount_milli=line.amount_milli,
        total_minor=to_minor_units(line.total, money.currency, money.rounding.mode),
        category=category,
        line_type=standing[0],
        cancelled=standing[1],
    )


@lru_cache(16_384)
def _redact(name: str, text: str) -> str:
    # The same articles recur; without the cache this takes a fifth of the time of a receipt.
    return redact_value(name, text)[: read.MAX_TEXT]
