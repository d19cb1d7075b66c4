"""Who an event is: (source, store_id, event_id), and what it said: its fingerprint."""

import re
from hashlib import blake2b

import msgspec

IDENTIFIER = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_ORDERED = msgspec.json.Encoder(order="deterministic")


def receipt_id(store_id: str, till_id: str, numbering_epoch: str, transaction_id: str) -> str:
    """event_id of a POS receipt.

    >>> receipt_id("1", "123", "0", "42")
    'pos:1:123:0:42'
    """
    return f"pos:{store_id}:{till_id}:{numbering_epoch}:{transaction_id}"


def interval_id(store_id: str, device_id: str, happened_at: str) -> str:
    """event_id of a people counter interval; happened_at in UTC as tally.instants.instant_text writes it."""
    return f"traffic:{store_id}:{device_id}:{happened_at}"


def fingerprint(source_fields: object) -> str:
    """Digest (128 bits, hex) of the normalised source fields, before any enrichment.

    An honest resend has the same fingerprint whatever its arrival time, white space or field order.
    """
    return blake2b(_ORDERED.encode(source_fields), digest_size=16).hexdigest()
