"""Reads which receipt a void takes back, and when that receipt was closed."""

from datetime import datetime
from typing import NamedTuple

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject
from ingest.installation.arrival import Rules
from ingest.sources.sales.record import MAX_REVISION, VoidedReceipt
from tally.errors import RejectedEvent
from tally.time.instants import format_utc

_AT = "/voids"
_CLOSED_AT = f"{_AT}/happened_at"


class VoidTarget(NamedTuple):
    """The voided receipt, and the instant (UTC) in whose window the void counts.

    `receipt` has no till if the receipt is named by its number or reference alone.

    `counts_at` is the time of the receipt if the till sends it, else that of the void: then only a
    rebuild, which has all earlier receipts, can take back each part in its own window.
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
        raise RejectedEvent("wrong_type", "/voids", "/voids: an object is wanted")
    closed_at = _read_closing_time(voids, happened_at)
    number = read.label(read.require_field(voids, "transaction_id", _AT), f"{_AT}/transaction_id")
    until = (
        read.whole_number(voids["revision"], f"{_AT}/revision", 0, MAX_REVISION)
        if "revision" in voids
        else None
    )
    voided_at = None if closed_at is None else format_utc(happened_at)
    counts_at = closed_at or happened_at
    if "vendor_fiscal_module" not in voids:
        by_number = VoidedReceipt(transaction_id=number, revision=until, voided_at=voided_at)
        return VoidTarget(by_number, counts_at)
    if store_id in rules.numberings and closed_at is None and "numbering_epoch" not in voids:
        # With the void's own day the number might name a receipt of another day.
        raise RejectedEvent(
            "missing_field",
            _CLOSED_AT,
            f"{_CLOSED_AT}: is missing; the store's receipt numbers begin again, so a void says"
            " when its receipt was closed, or in which numbering_epoch",
        )
    usual_epoch = rules.numbering_epoch(store_id, counts_at)
    receipt = VoidedReceipt(
        till_id=read.identifier(voids["vendor_fiscal_module"], f"{_AT}/vendor_fiscal_module"),
        transaction_id=number,
        numbering_epoch=read.identifier(
            voids.get("numbering_epoch", usual_epoch), "/voids/numbering_epoch"
        ),
        revision=until,
        voided_at=voided_at,
    )
    return VoidTarget(receipt, counts_at)


def _read_closing_time(voids: JsonObject, happened_at: datetime) -> datetime | None:
    if "happened_at" not in voids:
        return None
    closed_at = read.instant(voids["happened_at"], _CLOSED_AT)
    if closed_at > happened_at:
        raise RejectedEvent("out_of_range", _CLOSED_AT, f"{_CLOSED_AT}: lies after the void itself")
    return closed_at
