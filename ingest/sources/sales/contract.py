"""POS message to canonical receipt (contracts: Messages, Values)."""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from ingest.contract import fields as read
from ingest.contract.arrival import Arrival, Rules
from ingest.contract.extras import kept_extra, unknown_fields
from ingest.contract.wire import JsonObject, parsed
from ingest.sources.sales.record import CanonicalReceipt, Line, VoidedReceipt
from tally.algebra.parts import MOST_PART
from tally.errors import RejectedEvent
from tally.events import SCHEMA_VERSION
from tally.identity import event_id, fingerprint
from tally.instants import instant_text
from tally.money import minor_units
from tally.redact import is_sensitive, redacted_value

KINDS = ("sale", "return", "void")
MAX_LINES = 1000
_REQUIRED = (
    "happened_at",
    "operation_id",
    "transaction_id",
    "vendor_fiscal_module",
    "transactions",
)
_RECEIPT_FIELDS = frozenset(
    (*_REQUIRED, "schema_version", "kind", "voids", "currency", "numbering_epoch", "loyalty_id")
)
_LINE_FIELDS = frozenset(("item", "price", "amount", "total", "item_id", "category"))


class _SourceLine(msgspec.Struct, frozen=True, array_like=True):
    """One line as it was sent: what the fingerprint is taken over."""

    item: str
    item_id: str
    category: str | None
    price: Decimal
    amount_milli: int
    total: Decimal


class _ReceiptParts(NamedTuple):
    """Additive parts of the sales family: money in minor units, units in thousandths."""

    receipts: int
    gross_minor: int
    returns_minor: int
    voids_minor: int
    units_milli: int


def normalised(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalReceipt:
    """The receipt that the message is, with the parts that it adds to its window.

    Raises RejectedEvent and nothing else, whatever the bytes.
    """
    tree = parsed(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.happened(tree, arrival, rules)
    store_id = read.identifier(read.required(tree, "operation_id"), "/operation_id")
    till_id = read.identifier(read.required(tree, "vendor_fiscal_module"), "/vendor_fiscal_module")
    transaction_id = read.identifier(read.required(tree, "transaction_id"), "/transaction_id")
    usual_epoch = rules.epoch_of(store_id, happened_at)
    epoch = read.identifier(tree.get("numbering_epoch", usual_epoch), "/numbering_epoch")
    kind = _kind(tree)
    own_currency = read.currency_code(tree["currency"], "/currency") if "currency" in tree else None
    voids = _voided(tree, usual_epoch)
    loyalty_hash = _loyalty_hash(tree, rules.loyalty_key)
    source = _source_lines(tree)
    currency = own_currency or rules.currency_of(store_id)
    lines = tuple([_line(line, currency) for line in source])
    instant = instant_text(happened_at)
    identity = receipt_id(store_id, till_id, epoch, transaction_id)
    # Before enrichment: neither arrival nor the store's currency nor the rotating loyalty key
    # changes the fingerprint.
    said: list[Any] = [identity, store_id, till_id, epoch, transaction_id, instant]
    said += [kind, own_currency, voids, source]
    return CanonicalReceipt(
        schema_version=SCHEMA_VERSION,
        event_id=identity,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.received_text,
        fingerprint=fingerprint(said),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        till_id=till_id,
        transaction_id=transaction_id,
        numbering_epoch=epoch,
        kind=kind,
        currency=currency,
        **_parts(kind, lines)._asdict(),
        lines=lines,
        voids=voids,
        loyalty_hash=loyalty_hash,
        extra=_extra(tree),
    )


def receipt_id(store_id: str, till_id: str, numbering_epoch: str, transaction_id: str) -> str:
    """event_id of a receipt.

    >>> receipt_id("1", "123", "0", "42"), receipt_id("1", "123", "0:4", "2")
    ('pos:1:123:0:42', 'pos:1:123:0%3A4:2')
    """
    return event_id("pos", store_id, till_id, numbering_epoch, transaction_id)


def _kind(tree: JsonObject) -> str:
    kind = tree.get("kind", "sale")
    if type(kind) is not str:
        raise RejectedEvent("wrong_type", "/kind", "/kind: text is wanted: sale, return or void")
    if kind not in KINDS:
        raise RejectedEvent(
            "out_of_range", "/kind", f"/kind: {kind[:40]!r} is none of sale, return, void"
        )
    return kind


def _voided(tree: JsonObject, usual_epoch: str) -> VoidedReceipt | None:
    if "voids" not in tree:
        return None
    voids = tree["voids"]
    if type(voids) is not dict:
        raise RejectedEvent("wrong_type", "/voids", "/voids: an object is wanted")
    return VoidedReceipt(
        till_id=read.identifier(
            read.required(voids, "vendor_fiscal_module", "/voids"), "/voids/vendor_fiscal_module"
        ),
        transaction_id=read.identifier(
            read.required(voids, "transaction_id", "/voids"), "/voids/transaction_id"
        ),
        numbering_epoch=read.identifier(
            voids.get("numbering_epoch", usual_epoch), "/voids/numbering_epoch"
        ),
    )


def _loyalty_hash(tree: JsonObject, key: bytes) -> str | None:
    if "loyalty_id" not in tree:
        return None
    if type(tree["loyalty_id"]) is not str:
        # What was sent is nobody's to read, not in an error either.
        raise RejectedEvent("wrong_type", "/loyalty_id", "/loyalty_id: text is wanted")
    loyalty_id = read.text(tree["loyalty_id"], "/loyalty_id", shortest=1)
    if not key:
        # Without a key a hash could be guessed, so then nothing of the id is kept.
        return None
    # The key's own digest before it tells a new key from a new customer.
    hashed = blake2b(loyalty_id.encode(), key=key, digest_size=16).hexdigest()
    return f"{blake2b(key, digest_size=4).hexdigest()}:{hashed}"


def _source_lines(tree: JsonObject) -> list[_SourceLine]:
    lines = read.required(tree, "transactions")
    if type(lines) is not list:
        raise RejectedEvent(
            "wrong_type", "/transactions", "/transactions: a list of lines is wanted"
        )
    if not 1 <= len(lines) <= MAX_LINES:
        raise RejectedEvent(
            "out_of_range",
            "/transactions",
            f"/transactions: 1 to {MAX_LINES} lines are taken, got {len(lines)}",
        )
    return [_source_line(line, f"/transactions/{position}") for position, line in enumerate(lines)]


def _source_line(line: Any, at: str) -> _SourceLine:
    if type(line) is not dict:
        raise RejectedEvent("wrong_type", at, f"{at}: an object is wanted")
    item = read.text(read.required(line, "item", at), f"{at}/item", shortest=1)
    price = read.decimal_number(read.required(line, "price", at), f"{at}/price")
    amount_milli = read.quantity_milli(read.required(line, "amount", at), f"{at}/amount")
    at_total = f"{at}/total"
    total = (
        read.decimal_number(line["total"], at_total)
        if "total" in line
        else read.line_total(price, amount_milli, at_total)
    )
    item_id = read.identifier(line["item_id"], f"{at}/item_id") if "item_id" in line else item
    category = read.text(line["category"], f"{at}/category") if "category" in line else None
    return _SourceLine(item, item_id, category, price, amount_milli, total)


def _line(line: _SourceLine, currency: str) -> Line:
    item, item_id, category = line.item, line.item_id, line.category
    if (
        is_sensitive(item)
        or (item_id is not item and is_sensitive(item_id))
        or (category and is_sensitive(category))
    ):
        item, item_id = _impersonal("item", item), _impersonal("item_id", item_id)
        category = category and _impersonal("category", category)
    return Line(
        item=item,
        item_id=item_id,
        price=format(line.price, "f"),
        amount_milli=line.amount_milli,
        total_minor=minor_units(line.total, currency),
        category=category,
    )


@lru_cache(16_384)
def _impersonal(name: str, text: str) -> str:
    # The same articles come again; without the cache a fifth of the time of a receipt.
    return redacted_value(name, text)[: read.MAX_TEXT]


def _parts(kind: str, lines: Sequence[Line]) -> _ReceiptParts:
    """What the receipt adds to its window. Raises RejectedEvent out_of_range."""
    parts = _signed_parts(kind, lines)
    if max(map(abs, parts)) > MOST_PART:
        most = f"{MOST_PART:,} minor units or thousandths of a unit"
        raise RejectedEvent(
            "out_of_range",
            "/transactions",
            f"/transactions: all lines of a receipt together are at most {most}",
        )
    return parts


def _signed_parts(kind: str, lines: Sequence[Line]) -> _ReceiptParts:
    if kind == "sale":
        # A line of less than nothing is something that came back with a purchase.
        sold = [line for line in lines if line.amount_milli >= 0 and line.total_minor >= 0]
        gross = sum([line.total_minor for line in sold])
        everything = sum([abs(line.total_minor) for line in lines])
        units = sum([line.amount_milli for line in lines])
        return _ReceiptParts(1, gross, everything - gross, 0, units)
    taken_back = sum([abs(line.total_minor) for line in lines])
    if kind == "return":
        return _ReceiptParts(
            0,
            0,
            taken_back,
            0,
            -sum([abs(line.amount_milli) for line in lines]),
        )
    return _ReceiptParts(0, 0, 0, taken_back, 0)


def _extra(tree: JsonObject) -> dict[str, Any] | None:
    """Unknown fields of the receipt and of its lines; None if there are none.

    Those of the lines are under `transactions`, by position.
    """
    extra = unknown_fields(tree, _RECEIPT_FIELDS)
    if any(line.keys() - _LINE_FIELDS for line in tree["transactions"]):
        by_line = {
            str(position): unknown_fields(line, _LINE_FIELDS)
            for position, line in enumerate(tree["transactions"])
        }
        extra["transactions"] = {
            position: unknown for position, unknown in by_line.items() if unknown
        }
    return kept_extra(extra)
