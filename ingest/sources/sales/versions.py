"""The identity of a receipt, and the version that a message has (docs/adr/026-revisions.md)."""

from collections.abc import Sequence
from typing import NamedTuple

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject
from ingest.sources.sales.lines import ReceiptFacts
from ingest.sources.sales.record import MAX_REVISION, VoidedReceipt
from ingest.sources.sales.rules import ENDINGS, exclusion_rule_id
from tally.events.identity import (
    REFERENCE,
    cancellation_id,
    correction_id,
    event_id,
    fingerprint,
    reversal_id,
    version_id,
)


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
    is_ending = not standing.training and standing.status in ENDINGS
    return ReceiptVersion(
        read.whole_number(tree["revision"], "/revision", 0, MAX_REVISION)
        if "revision" in tree
        else None,
        read.flag(tree.get("replaces", False), "/replaces"),
        exclusion_rule_id(standing.training, standing.status),
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
    """event_id of a version of the receipt; `content` distinguishes versions without a number."""
    if version.rule and not version.is_ending:
        # A suspended receipt may be resumed and suspended again; none of that is the finished one.
        return f"{receipt}:{version.rule}:{fingerprint(content)}"
    if version.is_ending:
        ended = version.revision
        return (
            cancellation_id(receipt, fingerprint(content))
            if ended is None
            else reversal_id(receipt, ended)
        )
    if version.revision is not None:
        return version_id(receipt, version.revision)
    return correction_id(receipt, fingerprint(content)) if version.replaces else receipt


def void_id(store_id: str, taken: VoidedReceipt) -> str:
    """event_id of the void of a receipt, independent of the void's own number.

    So the second of two voids of one receipt takes nothing more back.
    """
    if taken.till_id is None or taken.numbering_epoch is None:
        return reversal_id(event_id(REFERENCE, store_id, taken.transaction_id), taken.revision)
    receipt = receipt_id(store_id, taken.till_id, taken.numbering_epoch, taken.transaction_id)
    return reversal_id(receipt, taken.revision)
