"""Who a receipt is, and which version of it a message brings (docs/adr/026-revisions.md)."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject
from ingest.sources.sales.lines import Standing
from ingest.sources.sales.record import MOST_REVISION, VoidedReceipt
from ingest.sources.sales.rules import ENDINGS, left_out_by
from tally.identity import (
    REFERENCE,
    correction_id,
    ending_id,
    event_id,
    fingerprint,
    reversal_id,
    version_id,
)


class ReceiptVersion(NamedTuple):
    """Which version of its receipt a message brings.

    `revision` is its number, None without; `replaces`: it takes the place of what was closed before
    it; `rule`: the one by which it adds nothing; `is_ending`: nor does what came before it;
    `reference`: another name of the receipt.
    """

    revision: int | None
    replaces: bool
    rule: str | None
    is_ending: bool
    reference: str | None


def read_version(tree: JsonObject, standing: Standing) -> ReceiptVersion:
    """The version that a message brings. Raises RejectedEvent."""
    is_ending = not standing.training and standing.status in ENDINGS
    return ReceiptVersion(
        read.whole_number(tree["revision"], "/revision", 0, MOST_REVISION)
        if "revision" in tree
        else None,
        read.flag(tree.get("replaces", False), "/replaces"),
        left_out_by(standing.training, standing.status),
        is_ending,
        read.label(tree["reference"], "/reference") if "reference" in tree else None,
    )


def receipt_id(store_id: str, till_id: str, numbering_epoch: str, transaction_id: str) -> str:
    """event_id of a receipt.

    >>> receipt_id("1", "123", "0", "42"), receipt_id("1", "123", "0:4", "2")
    ('pos:1:123:0:42', 'pos:1:123:0%3A4:2')
    """
    return event_id("pos", store_id, till_id, numbering_epoch, transaction_id)


def version_event_id(receipt: str, version: ReceiptVersion, content: Sequence[object]) -> str:
    """event_id of a version of the receipt; `content` tells those without a number apart."""
    if version.rule and not version.is_ending:
        # A table is put aside, taken up and put aside again; none of that is the finished receipt.
        return f"{receipt}:{version.rule}:{fingerprint(content)}"
    if version.is_ending:
        ended = version.revision
        return (
            ending_id(receipt, fingerprint(content))
            if ended is None
            else reversal_id(receipt, ended)
        )
    if version.revision is not None:
        return version_id(receipt, version.revision)
    return correction_id(receipt, fingerprint(content)) if version.replaces else receipt


def void_id(store_id: str, taken: VoidedReceipt) -> str:
    """event_id of what takes a receipt back, whatever its own number.

    So that of two voids of one receipt the second takes nothing more.
    """
    if taken.till_id is None or taken.numbering_epoch is None:
        return reversal_id(event_id(REFERENCE, store_id, taken.transaction_id), taken.revision)
    receipt = receipt_id(store_id, taken.till_id, taken.numbering_epoch, taken.transaction_id)
    return reversal_id(receipt, taken.revision)
