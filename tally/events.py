"""Canonical events: what the normaliser writes and both layers read.

Their schemas: schemas/events/{sales,traffic}.schema.json.
"""

from typing import Any

import msgspec

SCHEMA_VERSION = 1


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


class CanonicalReceipt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One receipt, normalised: instants as UTC text, money in minor units, units in thousandths."""

    schema_version: int
    event_id: str
    store_id: str
    happened_at: str
    received_at: str
    fingerprint: str
    raw_partition: int
    raw_offset: int
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
    extra: dict[str, Any] | None = None
    repeat: bool = False


class CanonicalInterval(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One people counter interval, normalised; happened_at is its start."""

    schema_version: int
    event_id: str
    store_id: str
    happened_at: str
    received_at: str
    fingerprint: str
    raw_partition: int
    raw_offset: int
    device_id: str
    interval_seconds: int
    entries: int
    exits: int
    # With omit_defaults a default value is left out: counts have none, so a zero is written.
    passers_by: int
    extra: dict[str, Any] | None = None
    repeat: bool = False
