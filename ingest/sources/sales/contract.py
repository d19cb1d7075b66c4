"""Normalises a POS message as a canonical receipt (contracts: Messages, Values)."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypedDict

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, clean_extra, parse_object, unknown_fields
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.sales.lines import (
    DEFAULT_FACTS,
    ReceiptFacts,
    build_lines,
    line_content,
    read_receipt_facts,
    source_lines,
)
from ingest.sources.sales.lines import FIELDS as LINE_FIELDS
from ingest.sources.sales.record import CanonicalReceipt, Line, sum_receipt_parts, sum_void_parts
from ingest.sources.sales.rounding import Money
from ingest.sources.sales.versions import (
    read_version,
    read_void_target,
    receipt_id,
    version_event_id,
    void_id,
)
from tally.algebra.parts import MAX_PART
from tally.errors import RejectedEvent
from tally.events.identity import SCHEMA_VERSION, content_fingerprint
from tally.events.receipt_rules import KINDS, LineFacts, ReceiptKind
from tally.time.instants import format_utc

_REQUIRED = (
    "happened_at",
    "operation_id",
    "transaction_id",
    "vendor_fiscal_module",
    "transactions",
)
_RECEIPT_FIELDS = frozenset(
    (
        *_REQUIRED,
        "schema_version",
        "kind",
        "transaction_status",
        "training",
        "voids",
        "currency",
        "numbering_epoch",
        "loyalty_id",
        "net_total",
        "reference",
        "revision",
        "replaces",
    )
)


class ReceiptParts(TypedDict):
    """What a receipt adds to its window: money in minor units, units in thousandths."""

    receipts: int
    gross_minor: int
    discounts_minor: int
    returns_minor: int
    voids_minor: int
    units_milli: int
    returned_receipts: int
    non_sales_minor: int
    rounding_minor: int


PARTS = tuple(ReceiptParts.__annotations__)


def normalise(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalReceipt:
    """Normalise a message as a receipt, with the parts that it adds to its window.

    Raises RejectedEvent and nothing else, for any bytes.
    """
    tree = parse_object(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.event_instant(tree, arrival, rules)
    store_id, till_id, transaction_id = _read_ids(tree)
    numbering_epoch = _read_numbering_epoch(tree, rules.numbering_epoch(store_id, happened_at))
    kind = read.choice(tree.get("kind", "sale"), "/kind", KINDS)
    own_currency = read.currency_code(tree["currency"], "/currency") if "currency" in tree else None
    voided_receipt = read_void_target(tree, store_id, happened_at, rules)
    voids = voided_receipt and voided_receipt.receipt
    taken = voids if kind == "void" else None
    standing = read_receipt_facts(tree)
    version = read_version(tree, standing)
    # A void that names its receipt need not repeat the lines: the next rebuild supplies them.
    source = source_lines(tree, 0 if taken or version.is_ending else 1)
    closed_at = voided_receipt.counts_at if voided_receipt and taken else happened_at
    money = _money(rules, store_id, closed_at, own_currency)
    lines = build_lines(tree, source, money, standing, kind)
    instant = format_utc(closed_at)
    # These are the fields before enrichment: neither arrival nor the store's currency nor the
    # rotating loyalty key may change the fingerprint.
    ids = (store_id, till_id, numbering_epoch, transaction_id)
    kind_fields = (kind, own_currency, voids)
    sent_fields = [*ids, instant, *kind_fields, source, *_fact_fields(standing)]
    content = [standing.status, instant, *kind_fields, *line_content(source, lines)]
    identity = version_event_id(receipt_id(*ids), version, content)
    if taken and not version.rule:
        identity = void_id(store_id, taken)
    return CanonicalReceipt(
        schema_version=SCHEMA_VERSION,
        event_id=identity,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.timestamp_text,
        fingerprint=content_fingerprint([identity, *sent_fields], [identity, *content]),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        till_id=till_id,
        transaction_id=transaction_id,
        numbering_epoch=numbering_epoch,
        kind=kind,
        currency=money.currency,
        **_parts(kind, () if version.rule else lines, taken is not None),
        lines=lines,
        rule=version.rule,
        voids=voids,
        reference=version.reference,
        revision=version.revision,
        loyalty_hash=_loyalty_hash(tree, rules.loyalty_key),
        extra=_extra(tree),
    )


def _read_ids(tree: JsonObject) -> tuple[str, str, str]:
    """Store, till and transaction."""
    store_id = read.identifier(read.require_field(tree, "operation_id"), "/operation_id")
    till = read.require_field(tree, "vendor_fiscal_module")
    till_id = read.identifier(till, "/vendor_fiscal_module")
    transaction_id = read.label(read.require_field(tree, "transaction_id"), "/transaction_id")
    return store_id, till_id, transaction_id


def _money(rules: Rules, store_id: str, closed_at: datetime, named_currency: str | None) -> Money:
    """Currency and rounding of a receipt closed at `closed_at`; `own` is the currency it names."""
    currency = named_currency or rules.money.currency(store_id, closed_at)
    return Money(currency, rules.money.rounding(store_id, closed_at))


def _read_numbering_epoch(tree: JsonObject, default: str) -> str:
    return read.identifier(tree.get("numbering_epoch", default), "/numbering_epoch")


def _fact_fields(standing: ReceiptFacts) -> list[Any]:
    # Only if they are set: the fingerprints from before these fields existed must not change.
    if standing == DEFAULT_FACTS:
        return []
    return [standing.status, standing.training, list(standing.lines.items())]


def _loyalty_hash(tree: JsonObject, key: bytes) -> str | None:
    if "loyalty_id" not in tree:
        return None
    if type(tree["loyalty_id"]) is not str:
        # The value is personal, so not even an error may show it.
        raise RejectedEvent("wrong_type", "/loyalty_id", "/loyalty_id: text is wanted")
    loyalty_id = read.text(tree["loyalty_id"], "/loyalty_id", shortest=1)
    if not key:
        # A hash without a key could be guessed, so nothing of the id is kept.
        return None
    # The prefix is the key's own digest: it distinguishes a new key from a new customer.
    hashed = blake2b(loyalty_id.encode(), key=key, digest_size=16).hexdigest()
    return f"{blake2b(key, digest_size=4).hexdigest()}:{hashed}"


def _parts(kind: ReceiptKind, lines: Sequence[Line], takes_back: bool) -> ReceiptParts:
    """The parts that these lines of a receipt add. Raises RejectedEvent out_of_range."""
    facts = [
        LineFacts(line.line_type, line.cancelled, line.amount_milli, line.total_minor)
        for line in lines
    ]
    sums = sum_void_parts(facts) if takes_back else sum_receipt_parts(kind, facts)
    if max(map(abs, sums.values()), default=0) > MAX_PART:
        most = f"{MAX_PART:,} minor units or thousandths of a unit"
        raise RejectedEvent(
            "out_of_range",
            "/transactions",
            f"/transactions: all lines of a receipt together are at most {most}",
        )
    return ReceiptParts(
        receipts=sums["receipts"],
        gross_minor=sums["gross_minor"],
        discounts_minor=sums["discounts_minor"],
        returns_minor=sums["returns_minor"],
        voids_minor=sums["voids_minor"],
        units_milli=sums["units_milli"],
        returned_receipts=sums["returned_receipts"],
        non_sales_minor=sums["non_sales_minor"],
        rounding_minor=sums["rounding_minor"],
    )


def _extra(tree: JsonObject) -> dict[str, Any] | None:
    """The unknown fields of the receipt and of its lines; None if there are none.

    The fields of lines are under `transactions`, by position.
    """
    extra = unknown_fields(tree, _RECEIPT_FIELDS)
    if any(line.keys() - LINE_FIELDS for line in tree["transactions"]):
        by_line = {
            str(position): unknown_fields(line, LINE_FIELDS)
            for position, line in enumerate(tree["transactions"])
        }
        extra["transactions"] = {
            position: unknown for position, unknown in by_line.items() if unknown
        }
    return clean_extra(extra)
