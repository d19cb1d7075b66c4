"""The identity of a receipt, the version that a message has (docs/adr/026-revisions.md), and the
receipt that a void takes back."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, field_error
from ingest.installation.arrival import Rules
from ingest.sources.sales.lines import ReceiptFacts
from ingest.sources.sales.record import ENDINGS, MAX_REVISION, VoidedReceipt, exclusion_rule_id
from tally.events import identity
from tally.time.instants import format_utc


class ReceiptVersion(NamedTuple):
    """The version of its receipt that a message has.

    `revision` is its number, or None. With `replaces` it replaces the versions that were closed
    before it. `rule` is the rule by which it adds nothing; with `is_ending` earlier versions add
    nothing either. `reference` is another name of the receipt.
    """

    revision: int | None
    replaces: bool
    rule: str | None
    is_ending: bool
    reference: str | None


def read_version(tree: JsonObject, standing: ReceiptFacts) -> ReceiptVersion:
    """The version that a message has. Raises RejectedEvent."""
    return ReceiptVersion(
        _read_revision(tree, ""),
        read.flag(tree.get("replaces", False), "/replaces"),
        exclusion_rule_id(standing.training, standing.status),
        not standing.training and standing.status in ENDINGS,
        read.label(tree["reference"], "/reference") if "reference" in tree else None,
    )


def receipt_id(store_id: str, till_id: str, numbering_epoch: str, transaction_id: str) -> str:
    """event_id of a receipt.

    >>> receipt_id("1", "123", "0", "42"), receipt_id("1", "123", "0:4", "2")
    ('pos:1:123:0:42', 'pos:1:123:0%3A4:2')
    """
    return identity.event_id("pos", store_id, till_id, numbering_epoch, transaction_id)


def version_event_id(receipt: str, version: ReceiptVersion, content: Sequence[object]) -> str:
    """event_id of a version of the receipt; `content` distinguishes versions without a number."""
    if version.rule and not version.is_ending:
        # A suspended receipt may be resumed and suspended again; none of that is the finished one.
        return f"{receipt}:{version.rule}:{identity.fingerprint(content)}"
    if version.is_ending:
        if version.revision is None:
            return identity.cancellation_id(receipt, identity.fingerprint(content))
        return identity.reversal_id(receipt, version.revision)
    if version.revision is not None:
        return identity.version_id(receipt, version.revision)
    if version.replaces:
        return identity.correction_id(receipt, identity.fingerprint(content))
    return receipt


def void_id(store_id: str, taken: VoidedReceipt) -> str:
    """event_id of a void, without the void's own number: a second void takes back no more."""
    if taken.till_id is None or taken.numbering_epoch is None:
        receipt = identity.event_id(identity.REFERENCE, store_id, taken.transaction_id)
    else:
        receipt = receipt_id(store_id, taken.till_id, taken.numbering_epoch, taken.transaction_id)
    return identity.reversal_id(receipt, taken.revision)


_AT = "/voids"
_CLOSED_AT = f"{_AT}/happened_at"


class VoidTarget(NamedTuple):
    """The voided receipt, and the instant (UTC) in whose window the void counts.

    `receipt` has no till if the receipt is named by its number or reference alone. `counts_at` is
    the time of the receipt if the till sends it, else that of the void: then only a rebuild, which
    has all earlier receipts, can take back each part in its own window.
    """

    receipt: VoidedReceipt
    counts_at: datetime


def read_void_target(
    tree: JsonObject, store_id: str, happened_at: datetime, rules: Rules
) -> VoidTarget | None:
    """The receipt that the message's `voids` names; None without it. Raises RejectedEvent.

    A receipt of another kind may name one too, and takes nothing back. If the store's numbers begin
    again, a number alone does not identify a receipt.
    """
    if "voids" not in tree:
        return None
    voids = tree["voids"]
    if type(voids) is not dict:
        raise field_error("wrong_type", _AT, "an object is wanted")
    closed_at = _read_closing_time(voids, happened_at)
    number = read.label(read.require_field(voids, "transaction_id", _AT), f"{_AT}/transaction_id")
    until = _read_revision(voids, _AT)
    voided_at = None if closed_at is None else format_utc(happened_at)
    counts_at = closed_at or happened_at
    if "vendor_fiscal_module" not in voids:
        by_number = VoidedReceipt(transaction_id=number, revision=until, voided_at=voided_at)
        return VoidTarget(by_number, counts_at)
    if store_id in rules.numberings and closed_at is None and "numbering_epoch" not in voids:
        # With the void's own day the number might name a receipt of another day.
        what = "is missing; the store's receipt numbers begin again, so a void says"
        fix = "when its receipt was closed, or in which numbering_epoch"
        raise field_error("missing_field", _CLOSED_AT, f"{what} {fix}")
    epoch = voids.get("numbering_epoch", rules.numbering_epoch(store_id, counts_at))
    receipt = VoidedReceipt(
        till_id=read.identifier(voids["vendor_fiscal_module"], f"{_AT}/vendor_fiscal_module"),
        transaction_id=number,
        numbering_epoch=read.identifier(epoch, f"{_AT}/numbering_epoch"),
        revision=until,
        voided_at=voided_at,
    )
    return VoidTarget(receipt, counts_at)


def _read_revision(fields: JsonObject, at: str) -> int | None:
    if "revision" not in fields:
        return None
    return read.whole_number(fields["revision"], f"{at}/revision", 0, MAX_REVISION)


def _read_closing_time(voids: JsonObject, happened_at: datetime) -> datetime | None:
    if "happened_at" not in voids:
        return None
    closed_at = read.instant(voids["happened_at"], _CLOSED_AT)
    if closed_at > happened_at:
        raise field_error("out_of_range", _CLOSED_AT, "lies after the void itself")
    return closed_at
