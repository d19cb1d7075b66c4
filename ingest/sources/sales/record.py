"""The canonical receipt, as the normaliser writes it."""

import msgspec

from tally.events.identity import CanonicalEvent
from tally.events.receipt_rules import LineType

MAX_REVISION = 999_999_999


class Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of a receipt.

    Amount in thousandths, total in minor units of the receipt's currency.
    """

    item: str
    item_id: str
    price: str
    amount_milli: int
    total_minor: int
    category: str | None = None
    line_type: LineType = "item"
    cancelled: bool = False


class VoidedReceipt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The receipt that a void takes back.

    Without till and epoch it is the store's only receipt with this number or reference. Versions
    up to `revision` are taken back, all if it is None. `voided_at` is the time of the void if the
    void's `happened_at` is that of the receipt.
    """

    till_id: str | None = None
    transaction_id: str
    numbering_epoch: str | None = None
    revision: int | None = None
    voided_at: str | None = None


class CanonicalReceipt(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One receipt, normalised: instants as UTC text, money in minor units, units in thousandths.

    `rule` is the rule by which it adds nothing, None for a receipt that counts. `reference` is
    another name of the receipt. The version with the highest `revision` counts; of versions
    without a number the one that was closed last.
    """

    till_id: str
    transaction_id: str
    numbering_epoch: str
    kind: str
    currency: str
    receipts: int
    gross_minor: int
    discounts_minor: int
    returns_minor: int
    voids_minor: int
    units_milli: int
    returned_receipts: int
    non_sales_minor: int
    lines: tuple[Line, ...]
    rounding_minor: int = 0
    voids: VoidedReceipt | None = None
    loyalty_hash: str | None = None
    rule: str | None = None
    reference: str | None = None
    revision: int | None = None
