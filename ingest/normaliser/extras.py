"""Unknown fields of a message: kept, redacted, never an error."""

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from ingest.normaliser.wire import JsonObject
from tally.redact import redacted_text


def unknown_fields(fields: JsonObject, known: Collection[str]) -> JsonObject:
    """The fields whose names are not known."""
    return {name: value for name, value in fields.items() if name not in known}


def redacted_extra(value: Any) -> Any:
    """The JSON value with card numbers and e-mail addresses in its texts and names replaced."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, dict):
        return {redacted_text(name): redacted_extra(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [redacted_extra(inner) for inner in value]
    return _plain_number(value) if type(value) in (int, Decimal) else value


def _plain_number(number: int | Decimal) -> int | Decimal | str:
    """The number, or its redacted text if it may be a card number or is beyond what readers of JSON take."""
    written = str(number)
    bounded = -(2**63) <= number < 2**63 if isinstance(number, int) else abs(number.adjusted()) < 300
    return number if bounded and redacted_text(written) == written else redacted_text(written)
