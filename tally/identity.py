"""Who an event is: (source, store_id, event_id), and what it said: its fingerprint."""

import re
from hashlib import blake2b

import msgspec

# `.` and `..` are no ids: as names of folders they would lead elsewhere.
IDENTIFIER = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:-]{1,64}", re.ASCII)
_ORDERED = msgspec.json.Encoder(order="deterministic")


def receipt_id(store_id: str, till_id: str, numbering_epoch: str, transaction_id: str) -> str:
    """event_id of a POS receipt.

    No two receipts share one, for `%` and `:` inside a part are percent-escaped.

    >>> receipt_id("1", "123", "0", "42"), receipt_id("1", "123", "0:4", "2")
    ('pos:1:123:0:42', 'pos:1:123:0%3A4:2')
    """
    return (
        f"pos:{_part(store_id)}:{_part(till_id)}:{_part(numbering_epoch)}:{_part(transaction_id)}"
    )


def interval_id(store_id: str, device_id: str, happened_at: str) -> str:
    """event_id of a people counter interval.

    happened_at in UTC as tally.instants.instant_text writes it, all behind the third colon.
    """
    return f"traffic:{_part(store_id)}:{_part(device_id)}:{happened_at}"


def fingerprint(source_fields: object) -> str:
    """Digest (128 bits, hex) of the normalised source fields, before any enrichment.

    An honest resend has the same fingerprint whatever its arrival time, white space or field order.
    """
    return blake2b(_ORDERED.encode(source_fields), digest_size=16).hexdigest()


def _part(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A") if ":" in text or "%" in text else text
