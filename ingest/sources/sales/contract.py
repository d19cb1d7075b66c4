"""Normalises a POS message as a canonical receipt (contracts: Messages, Values)."""

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypedDict, cast

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, clean_extra, field_error, parse_object, unknown_fields
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.sales import versions
from ingest.sources.sales.lines import (
    DEFAULT_FACTS,
    Money,
    ReceiptFacts,
    build_lines,
    line_content,
    read_receipt_facts,
    source_lines,
)
from ingest.sources.sales.lines import FIELDS as LINE_FIELDS
from ingest.sources.sales.record import CanonicalReceipt, Line, sum_receipt_parts, sum_void_parts
from tally.algebra.parts import MAX_PART
from tally.events.identity import SCHEMA_VERSION, content_fingerprint
from tally.events.receipt_rules import KINDS, LineFacts, ReceiptKind
from tally.time.instants import format_utc

_RECEIPT_FIELDS = frozenset(
    (
        *("happened_at", "operation_id", "transaction_id", "vendor_fiscal_module", "transactions"),
        *("schema_version", "kind", "transaction_status", "training", "voids", "currency"),
        *("numbering_epoch", "loyalty_id", "net_total", "reference", "revision", "replaces"),
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
    """Normalise a receipt, with its parts. Raises RejectedEvent and nothing else, for any bytes."""
    tree = parse_object(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.event_instant(tree, arrival, rules)
    ids = store_id, till_id, numbering_epoch, transaction_id = _read_ids(tree, happened_at, rules)
    kind = read.choice(tree.get("kind", "sale"), "/kind", KINDS)
    own_currency = read.currency_code(tree["currency"], "/currency") if "currency" in tree else None
    voided_receipt = versions.read_void_target(tree, store_id, happened_at, rules)
    voids = voided_receipt and voided_receipt.receipt
    taken = voids if kind == "void" else None
    standing = read_receipt_facts(tree)
    version = versions.read_version(tree, standing)
    # A void that names its receipt need not repeat the lines: the next rebuild supplies them.
    source = source_lines(tree, 0 if taken or version.is_ending else 1)
    closed_at = voided_receipt.counts_at if voided_receipt and taken else happened_at
    currency = own_currency or rules.money.currency(store_id, closed_at)
    money = Money(currency, rules.money.rounding(store_id, closed_at))
    lines = build_lines(tree, source, money, standing, kind)
    instant = format_utc(closed_at)
    # These are the fields before enrichment: neither arrival nor the store's currency nor the
    # rotating loyalty key may change the fingerprint.
    kind_fields = (kind, own_currency, voids)
    sent_fields = [*ids, instant, *kind_fields, source, *_fact_fields(standing)]
    content = [standing.status, instant, *kind_fields, *line_content(source, lines)]
    identity = versions.version_event_id(versions.receipt_id(*ids), version, content)
    if taken and not version.rule:
        identity = versions.void_id(store_id, taken)
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


def _read_ids(tree: JsonObject, at: datetime, rules: Rules) -> tuple[str, ...]:
    """Store, till, numbering epoch and transaction."""
    store_id = read.identifier(read.require_field(tree, "operation_id"), "/operation_id")
    till = read.require_field(tree, "vendor_fiscal_module")
    till_id = read.identifier(till, "/vendor_fiscal_module")
    transaction_id = read.label(read.require_field(tree, "transaction_id"), "/transaction_id")
    epoch = tree.get("numbering_epoch", rules.numbering_epoch(store_id, at))
    return store_id, till_id, read.identifier(epoch, "/numbering_epoch"), transaction_id


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
        raise field_error("wrong_type", "/loyalty_id", "text is wanted")
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
        what = f"all lines of a receipt together are at most {most}"
        raise field_error("out_of_range", "/transactions", what)
    return cast(ReceiptParts, {name: sums[name] for name in PARTS})


def _extra(tree: JsonObject) -> dict[str, Any] | None:
    """The unknown fields, those of lines by position under `transactions`; None without any."""
    extra = unknown_fields(tree, _RECEIPT_FIELDS)
    if any(line.keys() - LINE_FIELDS for line in tree["transactions"]):
        extra["transactions"] = {
            str(position): unknown
            for position, line in enumerate(tree["transactions"])
            if (unknown := unknown_fields(line, LINE_FIELDS))
        }
    return clean_extra(extra)
