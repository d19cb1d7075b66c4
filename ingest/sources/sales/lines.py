"""Reads the lines of a receipt as sent, and makes the lines of its record, with the rounding."""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, field_error
from ingest.sources.sales.record import STATUSES, Line, ReceiptStatus
from tally.algebra.parts import MAX_PART
from tally.errors import RejectedEvent
from tally.events.money import TillRounding, minor_digits, to_minor_units
from tally.events.receipt_rules import SENT_LINE_TYPES, TOTAL_ROUNDING, LineType, ReceiptKind
from tally.people.redact import is_sensitive, redact_value

MAX_LINES = 1000
_NAMES = ("item", "price", "amount", "total", "item_id", "category", "line_type", "cancelled")
FIELDS = frozenset(_NAMES)
# The line types that are no part of a receipt's total.
PAYMENTS = frozenset(("tender", "change", "rounding", "gift_card_redeemed", "tax", TOTAL_ROUNDING))


class Money(NamedTuple):
    """The currency of a receipt (ISO 4217), and how its store rounds."""

    currency: str
    rounding: TillRounding


class SourceLine(msgspec.Struct, frozen=True, array_like=True):
    """One line as it was sent; the fingerprint covers it."""

    item: str
    item_id: str
    category: str | None
    price: Decimal
    amount_milli: int
    total: Decimal


class ReceiptFacts(NamedTuple):
    """Facts for the rules; `lines`: by place those that are no plain articles, and if cancelled."""

    status: ReceiptStatus
    training: bool
    lines: dict[int, tuple[LineType, bool]]


_ARTICLE: tuple[LineType, bool] = ("item", False)
# The standing of a receipt from a till that sends none of these fields.
DEFAULT_FACTS = ReceiptFacts("finished", False, {})


def source_lines(tree: JsonObject, least: int) -> list[SourceLine]:
    """The lines of a message, at least `least` of them. Raises RejectedEvent."""
    lines = _sent_lines(tree)
    if len(lines) < least:
        raise _wrong_count(lines, least)
    return [_source_line(line, f"/transactions/{position}") for position, line in enumerate(lines)]


def read_receipt_facts(tree: JsonObject) -> ReceiptFacts:
    """The standing of a message's receipt. Raises RejectedEvent."""
    lines = {
        place: _read_line_type(line, f"/transactions/{place}")
        for place, line in enumerate(_sent_lines(tree))
        if type(line) is dict and ("line_type" in line or "cancelled" in line)
    }
    status = tree.get("transaction_status", "finished")
    return ReceiptFacts(
        read.choice(status, "/transaction_status", STATUSES),
        read.flag(tree.get("training", False), "/training"),
        {place: what for place, what in lines.items() if what != _ARTICLE},
    )


def build_lines(
    tree: JsonObject,
    source: Sequence[SourceLine],
    money: Money,
    standing: ReceiptFacts,
    kind: ReceiptKind,
) -> tuple[Line, ...]:
    """The lines without personal data, and one of the total's rounding. Raises RejectedEvent."""
    types = standing.lines
    lines = tuple(
        [
            _line(line, money, types.get(place, _ARTICLE) if types else _ARTICLE)
            for place, line in enumerate(source)
        ]
    )
    for place, line in enumerate(lines):
        if abs(line.total_minor) > MAX_PART:
            what = f"a line is of {MAX_PART:,} minor units at most"
            raise field_error("out_of_range", f"/transactions/{place}", what)
    sent = tree.get("net_total")
    net_total = read.decimal_number(sent, "/net_total") if "net_total" in tree else None
    pairs = [*zip(source, lines, strict=True)]
    if lines and (rounded := _rounding_difference(pairs, money, net_total, kind)):
        lines = (*lines, _rounding_line(rounded, money.currency))
    return _with_return_signs(lines) if kind == "return" else lines


def line_content(source: Sequence[SourceLine], lines: Sequence[Line]) -> list[Any]:
    """The facts of the lines that change a stored number: no texts and no payments."""
    sold = [
        (sent.item_id, sent.category, sent.amount_milli, sent.total, line.line_type)
        for sent, line in zip(source, lines, strict=False)
        if is_sold(line)
    ]
    return [*sold, *(line.total_minor for line in lines[len(source) :])]


def is_sold(line: Line) -> bool:
    """Whether the line is part of the receipt's total."""
    return line.line_type not in PAYMENTS and not line.cancelled


def _rounding_difference(
    lines: Sequence[tuple[SourceLine, Line]],
    money: Money,
    net_total: Decimal | None,
    kind: ReceiptKind,
) -> int:
    """By how many minor units the till's total exceeds the sum of its rounded lines.

    Tills round each line or the receipt, half up or half to even: all of these differ from the
    exact sum of the lines by at most half a minor unit per line. A total may have been rounded
    further, for example to five cents, if rounding lines say by how much. The `net_total` of a
    return or a void may have either sign, because the kind gives the direction. Without `net_total`
    the store's rule determines the till's total. Raises RejectedEvent total_mismatch for a total
    that is farther away.
    """
    if net_total is None and not money.rounding.per_receipt:
        return 0
    sold = [(sent.total, line.total_minor) for sent, line in lines if is_sold(line)]
    exact = sum((total for total, _ in sold), Decimal(0))
    minor = sum(total for _, total in sold)
    if net_total is None:
        return to_minor_units(exact, money.currency, money.rounding.mode) - minor
    total_minor = to_minor_units(net_total, money.currency)
    totals = (total_minor,) if kind == "sale" else (total_minor, -total_minor)
    if minor in totals:
        return 0
    exact_minor = exact.scaleb(minor_digits(money.currency))
    roundings = (line for _, line in lines if line.line_type == "rounding" and not line.cancelled)
    reported = sum(line.total_minor for line in roundings)
    # If the total has the opposite sign, so has its rounding.
    explained = (0, reported) if kind == "sale" else (0, reported, -reported)
    for total, rounded in product(totals, explained):
        if abs(total - rounded - exact_minor) * 2 <= len(sold):
            return total - minor
    why = "rounding explains at most half a unit a line, and what lines of rounding say"
    what = f"is {total_minor} minor units, and the lines come to {minor}; {why}"
    raise field_error("total_mismatch", "/net_total", what)


def _rounding_line(minor: int, currency: str) -> Line:
    return Line(
        item="rounding",
        item_id="rounding",
        price=format(Decimal(minor).scaleb(-minor_digits(currency)), "f"),
        amount_milli=1000,
        total_minor=minor,
        line_type=TOTAL_ROUNDING,
    )


def _with_return_signs(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The lines of a return with the signs of goods that come back: negative amounts and totals.

    Some tills write them so, others like the lines of a sale. The sum of the receipt decides which,
    so that a discount that is given back keeps its own sign in both cases.
    """
    sold = [line for line in lines if is_sold(line)]
    total = sum(line.total_minor for line in sold) or sum(line.amount_milli for line in sold)
    if total <= 0:
        return lines
    return tuple(
        structs.replace(line, amount_milli=-line.amount_milli, total_minor=-line.total_minor)
        for line in lines
    )


def _sent_lines(tree: JsonObject) -> list[Any]:
    lines = read.require_field(tree, "transactions")
    if type(lines) is not list:
        raise field_error("wrong_type", "/transactions", "a list of lines is wanted")
    if len(lines) > MAX_LINES:
        raise _wrong_count(lines, 0)
    return lines


def _wrong_count(lines: Sequence[Any], least: int) -> RejectedEvent:
    taken = f"{least} to {MAX_LINES} lines are taken"
    return field_error("out_of_range", "/transactions", f"{taken}, got {len(lines)}")


def _source_line(line: Any, at: str) -> SourceLine:
    if type(line) is not dict:
        raise field_error("wrong_type", at, "an object is wanted")
    item = read.text(read.require_field(line, "item", at), f"{at}/item", shortest=1)
    price = read.decimal_number(read.require_field(line, "price", at), f"{at}/price")
    amount, has_total = read.require_field(line, "amount", at), "total" in line
    # If the till sends the line's total, further decimals of the amount do not change the money.
    amount_milli = read.quantity_milli(amount, f"{at}/amount", is_rounded=has_total)
    if has_total:
        total = read.decimal_number(line["total"], f"{at}/total")
    else:
        total = read.line_total(price, amount_milli, f"{at}/total")
    item_id = read.label(line["item_id"], f"{at}/item_id") if "item_id" in line else item
    category = read.text(line["category"], f"{at}/category") if "category" in line else None
    return SourceLine(item, item_id, category, price, amount_milli, total)


def _read_line_type(line: JsonObject, at: str) -> tuple[LineType, bool]:
    line_type = read.choice(line.get("line_type", "item"), f"{at}/line_type", SENT_LINE_TYPES)
    return line_type, read.flag(line.get("cancelled", False), f"{at}/cancelled")


def _line(line: SourceLine, money: Money, standing: tuple[LineType, bool]) -> Line:
    item, item_id, category = line.item, line.item_id, line.category
    if (
        is_sensitive(item)
        or (item_id is not item and is_sensitive(item_id))
        or (category and is_sensitive(category))
    ):
        # A name that was typed in is personal and no article number.
        item_id = _redact("item" if item_id is item else "item_id", item_id)
        item = _redact("item", item)
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
