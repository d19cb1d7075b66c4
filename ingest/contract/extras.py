"""Keeps the unknown fields of a message, within bounds and without personal data.

Every reader of the canonical record accepts fields within these bounds.
"""

from collections.abc import Collection
from decimal import Decimal
from typing import Any

import msgspec

from ingest.contract.wire import JsonObject, pointer
from tally.errors import RejectedEvent
from tally.people.redact import MARK, is_personal, redact_text, redact_value

MAX_BYTES = 16_384
MAX_NAME = 256
# Numbers beyond these bounds are kept as text: some JSON readers refuse numbers of such a length,
# and others read them as another number.
_MAX_DIGITS = 34
_MAX_EXPONENT = 300
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def unknown_fields(fields: JsonObject, known: Collection[str]) -> JsonObject:
    """The fields whose names are not known."""
    return {name: value for name, value in fields.items() if name not in known}


def clean_extra(extra: JsonObject) -> JsonObject | None:
    """The unknown fields as the canonical record carries them; None if there are none.

    Raises RejectedEvent too_large.
    """
    if not extra:
        return None
    fields = extra.items()
    clean_fields = {
        _clean_name(name, name): _clean_value(value, name, name) for name, value in fields
    }
    if len(_ENCODER.encode(clean_fields)) > MAX_BYTES:

        def size(name: str) -> int:
            return len(_ENCODER.encode(clean_fields[name])) + len(name)

        raise _too_large(max(clean_fields, key=size))
    return clean_fields


def _too_large(top: str) -> RejectedEvent:
    at = pointer(top)
    return RejectedEvent(
        "too_large",
        at,
        f"{at}: all unknown fields together may have {MAX_BYTES:,} bytes; send what is needed only",
    )


def _clean_value(value: Any, name: str, top: str) -> Any:
    """The value that is kept of a field of this name, inside the unknown field `top`."""
    if type(value) is dict:
        if is_personal(name):
            return MARK
        fields = value.items()
        return {
            _clean_name(inner, top): _clean_value(inner_value, inner, top)
            for inner, inner_value in fields
        }
    if type(value) is list:
        return (
            MARK
            if is_personal(name)
            else [_clean_value(inner_value, name, top) for inner_value in value]
        )
    if type(value) is str:
        # A text too long to keep is not searched: a megabyte would keep every other thread waiting.
        if len(value) > MAX_BYTES and not is_personal(name):
            raise _too_large(top)
        return redact_value(name, value)
    if is_personal(name):
        return MARK
    return _plain_number(value, name) if type(value) in (int, Decimal) else value


def _clean_name(name: str, top: str) -> str:
    if len(name) > MAX_NAME:
        at = pointer(top)
        raise RejectedEvent(
            "too_large",
            at,
            f"{at}: names of at most {MAX_NAME} characters are taken, got {len(name):,}",
        )
    return redact_text(name)[:MAX_NAME]


def _plain_number(number: int | Decimal, name: str) -> int | Decimal | str:
    """The number, or its text if it may be a card number or is too large for JSON readers."""
    if isinstance(number, int):
        bounded = -(2**63) <= number < 2**63
    else:
        bounded = (
            abs(number.adjusted()) <= _MAX_EXPONENT and len(number.as_tuple().digits) <= _MAX_DIGITS
        )
    written = str(number)
    clean = redact_value(name, written)
    return number if bounded and clean == written else clean
