"""POS message to canonical receipt (contracts: Messages, Values)."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypedDict

from ingest.contract import fields as read
from ingest.contract.arrival import Arrival, Rules
from ingest.contract.extras import kept_extra, unknown_fields
from ingest.contract.wire import JsonObject, parsed
from ingest.sources.sales.lines import FIELDS as LINE_FIELDS
from ingest.sources.sales.lines import (
    PLAIN,
    Standing,
    kept_lines,
    refuse_other_total,
    source_lines,
    standing_of,
    with_signs_of_a_return,
)
from ingest.sources.sales.record import CanonicalReceipt, Line, VoidedReceipt
from ingest.sources.sales.rules import added, left_out_by, taken_back
from ingest.sources.sales.voids import voided
from tally.algebra.parts import MOST_PART
from tally.errors import RejectedEvent
from tally.events import SCHEMA_VERSION
from tally.identity import event_id, fingerprint, reversal_id
from tally.instants import instant_text
from tally.receipt_rules import KINDS, LineFacts, ReceiptKind

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


PARTS = tuple(ReceiptParts.__annotations__)


def normalised(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalReceipt:
    """The receipt that the message is, with the parts that it adds to its window.

    Raises RejectedEvent and nothing else, whatever the bytes.
    """
    tree = parsed(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.happened(tree, arrival, rules)
    store_id = read.identifier(read.required(tree, "operation_id"), "/operation_id")
    till_id = read.identifier(read.required(tree, "vendor_fiscal_module"), "/vendor_fiscal_module")
    transaction_id = read.label(read.required(tree, "transaction_id"), "/transaction_id")
    usual_epoch = rules.epoch_of(store_id, happened_at)
    epoch = read.identifier(tree.get("numbering_epoch", usual_epoch), "/numbering_epoch")
    kind = read.one_of(tree.get("kind", "sale"), "/kind", KINDS)
    own_currency = read.currency_code(tree["currency"], "/currency") if "currency" in tree else None
    said = voided(tree, store_id, happened_at, rules)
    voids = said and said.receipt
    taken = voids if kind == "void" else None
    # A void whose receipt is named need not repeat it: then the next rebuild takes both back.
    source, standing = source_lines(tree, 0 if taken else 1), standing_of(tree)
    currency = own_currency or rules.currency_of(store_id)
    lines = kept_lines(source, currency, standing)
    refuse_other_total(tree, lines, currency, kind)
    lines = with_signs_of_a_return(lines) if kind == "return" else lines
    rule = left_out_by(standing.training, standing.status)
    instant = instant_text(said.counts_at if said and taken else happened_at)
    # Before enrichment: neither arrival nor the store's currency nor the rotating loyalty key
    # changes the fingerprint.
    said_fields: list[Any] = [store_id, till_id, epoch, transaction_id, instant]
    said_fields += [kind, own_currency, voids, source, *_standing_fields(standing)]
    own_id = receipt_id(store_id, till_id, epoch, transaction_id, *_version(rule, said_fields))
    identity = void_id(store_id, taken) if taken and not rule else own_id
    return CanonicalReceipt(
        schema_version=SCHEMA_VERSION,
        event_id=identity,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.received_text,
        fingerprint=fingerprint([identity, *said_fields]),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        till_id=till_id,
        transaction_id=transaction_id,
        numbering_epoch=epoch,
        kind=kind,
        currency=currency,
        **_parts(kind, lines if rule is None else (), taken is not None),
        lines=lines,
        rule=rule,
        voids=voids,
        loyalty_hash=_loyalty_hash(tree, rules.loyalty_key),
        extra=_extra(tree),
    )


def _standing_fields(standing: Standing) -> list[Any]:
    # Only where it is said: what was sent before there were such fields stays equal.
    if standing == PLAIN:
        return []
    return [standing.status, standing.training, list(standing.lines.items())]


def _version(rule: str | None, said_fields: Sequence[object]) -> tuple[str, ...]:
    """What tells one version of a receipt that is left out from the others of its number.

    A table is put aside, taken up and put aside again; none of that is the finished receipt.
    """
    return () if rule is None else (rule, fingerprint(said_fields))


def receipt_id(
    store_id: str,
    till_id: str,
    numbering_epoch: str,
    transaction_id: str,
    *version: str,
) -> str:
    """event_id of a receipt; `version` of one that is left out: the rule and a digest of it.

    >>> receipt_id("1", "123", "0", "42"), receipt_id("1", "123", "0:4", "2")
    ('pos:1:123:0:42', 'pos:1:123:0%3A4:2')
    """
    return event_id("pos", store_id, till_id, numbering_epoch, transaction_id, *version)


def void_id(store_id: str, taken: VoidedReceipt) -> str:
    """event_id of what takes a receipt back, whatever its own number.

    So that of two voids of one receipt the second is a conflict.
    """
    return reversal_id(
        receipt_id(store_id, taken.till_id, taken.numbering_epoch, taken.transaction_id)
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


def _parts(kind: ReceiptKind, lines: Sequence[Line], takes_back: bool) -> ReceiptParts:
    """What these lines of a receipt add. Raises RejectedEvent out_of_range."""
    facts = [
        LineFacts(line.line_type, line.cancelled, line.amount_milli, line.total_minor)
        for line in lines
    ]
    sums = taken_back(facts) if takes_back else added(kind, facts)
    if max(map(abs, sums.values()), default=0) > MOST_PART:
        most = f"{MOST_PART:,} minor units or thousandths of a unit"
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
    )


def _extra(tree: JsonObject) -> dict[str, Any] | None:
    """Unknown fields of the receipt and of its lines; None if there are none.

    Those of the lines are under `transactions`, by position.
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
    return kept_extra(extra)
