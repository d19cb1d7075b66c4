"""Normalises a line of a stock document as a count or movement (docs/inventory.md).

The event is a line and not a document: it has one article, so that a row of a view is a function
of its own events, and a long document needs no long message.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, clean_extra, field_error, parse_object, unknown_fields
from ingest.installation.arrival import Arrival, Rules
from tally.algebra.level import Level
from tally.events.identity import SCHEMA_VERSION, CanonicalEvent, event_id, fingerprint
from tally.people.redact import redact_value
from tally.time.instants import format_utc

DocumentKind: TypeAlias = Literal["delivery", "count", "transfer_in", "transfer_out"]
KINDS: tuple[DocumentKind, ...] = get_args(DocumentKind)
COUNT: DocumentKind = "count"
# A level takes half of the range of a part (tally/algebra/level.py), in thousandths; this is far
# below it.
MAX_MILLI = 100_000_000 * 1000
# The sign of each kind of movement; a count sets the stock instead.
SIGNS: Mapping[str, int] = {"delivery": 1, "transfer_in": 1, "transfer_out": -1}
_HEAD = ("schema_version", "store_id", "document_id", "happened_at", "kind")
_FIELDS = frozenset((*_HEAD, "line", "item_id", "item", "amount"))


class CanonicalStockLine(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One article of one document, normalised; amounts in thousandths."""

    document_id: str
    line: str
    kind: DocumentKind
    item_id: str
    item: str | None = None
    amount_milli: int
    counts: int
    delivered_milli: int
    transferred_in_milli: int
    transferred_out_milli: int
    # The value for the level: made by tally.algebra.level.Level.encode_count or moved.
    stock_milli: int


def normalise(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalStockLine:
    """Normalise a line of a document. Raises RejectedEvent and nothing else, for any bytes."""
    tree = parse_object(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.event_instant(tree, arrival, rules)
    store_id = read.identifier(read.require_field(tree, "store_id"), "/store_id")
    document_id = read.identifier(read.require_field(tree, "document_id"), "/document_id")
    kind = read.choice(read.require_field(tree, "kind"), "/kind", KINDS)
    item_id, item = _article(tree)
    line = read.identifier(tree["line"], "/line") if "line" in tree else item_id
    amount = _amount_milli(tree, kind)
    instant = format_utc(happened_at)
    identity = event_id("inventory", store_id, document_id, line)
    return CanonicalStockLine(
        schema_version=SCHEMA_VERSION,
        event_id=identity,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.timestamp_text,
        # Without the article's name, which may be spelled differently in the next duplicate.
        fingerprint=fingerprint([identity, instant, kind, item_id, amount]),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        document_id=document_id,
        line=line,
        kind=kind,
        item_id=item_id,
        item=item,
        amount_milli=amount,
        counts=int(kind == COUNT),
        delivered_milli=amount if kind == "delivery" else 0,
        transferred_in_milli=amount if kind == "transfer_in" else 0,
        transferred_out_milli=amount if kind == "transfer_out" else 0,
        stock_milli=Level.encode_count(amount)
        if kind == COUNT
        else Level.encode_movement(SIGNS[kind] * amount),
        extra=clean_extra(unknown_fields(tree, _FIELDS)),
    )


def _article(tree: JsonObject) -> tuple[str, str | None]:
    """Id and name of the article; without an id the name serves as the id, as on a receipt."""
    item = read.text(tree["item"], "/item", shortest=1) if "item" in tree else None
    name = None if item is None else _redact("item", item)
    if name is not None and "item_id" not in tree:
        return name, name
    item_id = read.label(read.require_field(tree, "item_id"), "/item_id")
    return _redact("item_id", item_id), name


def _redact(name: str, text: str) -> str:
    # The same redaction as for receipts: sold articles are found by the redacted id.
    return redact_value(name, text)[: read.MAX_TEXT]


def _amount_milli(tree: JsonObject, kind: DocumentKind) -> int:
    amount = read.quantity_milli(read.require_field(tree, "amount"), "/amount")
    # A count may find an empty shelf, but a movement of nothing is a mistake.
    least = 0 if kind == COUNT else 1
    if not least <= amount <= MAX_MILLI:
        taken = f"{'0' if least == 0 else '0.001'} to {MAX_MILLI // 1000:,} is taken"
        what = f"of a {kind} {taken}; what goes is a transfer_out, and no amount below 0"
        raise field_error("out_of_range", "/amount", what)
    return amount
