"""The canonical receipt, as the normaliser writes it."""

import msgspec

from tally.events import CanonicalEvent


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


class VoidedReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt that a void takes back."""

    till_id: str
    transaction_id: str
    numbering_epoch: str


class CanonicalReceipt(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One receipt, normalised: instants as UTC text, money in minor units, units in thousandths."""

    till_id: str
    transaction_id: str
    numbering_epoch: str
    kind: str
    currency: str
    receipts: int
    gross_minor: int
    returns_minor: int
    voids_minor: int
    units_milli: int
    lines: tuple[Line, ...]
    voids: VoidedReceipt | None = None
    loyalty_hash: str | None = None
