"""Readers of single fields: each returns the normalised value, or raises RejectedEvent."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from typing import Any, TypeVar, cast

from ingest.contract.wire import field_error, pointer
from ingest.installation.arrival import Arrival, Rules
from tally.errors import BadInstant, RejectedEvent
from tally.events.identity import IDENTIFIER
from tally.events.money import CURRENCIES, EXACT, to_thousandths
from tally.time.instants import parse_instant
from tally.time.windows import WINDOW, window_start

MAX_TEXT = 256
MAX_LABEL_BYTES = 128
_MAX_WHOLE_DIGITS = 9
# Categories of Unicode: control, format, surrogate, private, unassigned, line and paragraph ends.
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
# The dead letter's word for each kind of BadInstant.
_REASONS = {"not_rfc3339": "timestamp_not_rfc3339", "without_zone": "timestamp_without_zone"}
# Digits before the point: 10^12 minor units of a currency without decimals, and a quantity.
_MONEY_DIGITS = 13
_QUANTITY_DIGITS = 9
# A till that adds binary floats leaves noise at a number's end: 74.60000000000001 is 74.6. Noise is
# at most so much, or such a share of the number, beyond six decimals of a price or three of a
# quantity.
_NOISE, _RELATIVE_NOISE = Decimal("1e-9"), Decimal("1e-15")
_PRICE_STEP, _QUANTITY_STEP = Decimal("1e-6"), Decimal("1e-3")
# More than any decimal spelling of a double needs; these also bound the text of a price.
_MIN_EXPONENT = -25
_MAX_DIGITS = 34
_BOUNDED = Context(prec=_MAX_DIGITS, traps=[Inexact])
_DECIMAL_TEXT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
_ZERO = Decimal(0)

Fields = Mapping[str, Any]
_Word = TypeVar("_Word", bound=str)


def require_field(fields: Fields, name: str, at: str = "") -> Any:
    """The field's raw value. Raises RejectedEvent missing_field."""
    try:
        return fields[name]
    except KeyError:
        raise field_error("missing_field", at + pointer(name), "the field is missing") from None


def event_instant(fields: Fields, arrival: Arrival, rules: Rules) -> datetime:
    """happened_at in UTC, refused if it lies too late after the arrival or before anything counted.

    Too late is later than the arrival plus the tolerance; the earliest day is a setting. Raises
    RejectedEvent: future_time, clock_reset and those of an instant.
    """
    value = require_field(fields, "happened_at")
    happened_at = instant(value, "/happened_at")
    # Compared with the record's own arrival, not with the clock of this run: a replay must decide
    # alike.
    if happened_at - arrival.received_at > rules.future_tolerance:
        what = f"{value} lies after its arrival at {arrival.timestamp_text}"
        raise field_error("future_time", "/happened_at", what)
    if happened_at.date() < rules.earliest_event:
        bound = f"lies before {rules.earliest_event} (TALLY_EARLIEST_EVENT)"
        what = f"{value} {bound}: the sender's clock has fallen back"
        raise field_error("clock_reset", "/happened_at", what)
    return happened_at


def instant(value: Any, at: str) -> datetime:
    """An RFC 3339 instant, in UTC. Raises RejectedEvent: wrong_type, timestamp_…"""
    if type(value) is not str:
        wanted = "an RFC 3339 text like 2017-09-19T22:48:03+00:00 is wanted"
        raise field_error("wrong_type", at, wanted)
    try:
        return parse_instant(value, at)
    except BadInstant as error:
        raise RejectedEvent(_REASONS[error.kind], at, str(error)) from error


def refuse_crossing(start: datetime, seconds: int) -> None:
    """Raise RejectedEvent unless [start, start + seconds) lies inside one window."""
    if start + timedelta(seconds=seconds) > window_start(start) + WINDOW:
        what = "the interval must lie inside one 15-minute window"
        raise field_error("interval_crosses_window", "/interval_seconds", what)


def identifier(value: Any, at: str) -> str:
    """1 to 64 of [A-Za-z0-9._:-], or a whole number as its text. Raises RejectedEvent."""
    # Tills send 17 and "17" for the same store; both must give the same identity.
    if type(value) is int and value >= 0:
        value = str(value) if value.bit_length() <= 212 else "9" * 65
    if type(value) is not str:
        raise _wrong_type(value, at, "an identifier is text or a whole number")
    if IDENTIFIER.fullmatch(value) is None:
        taken = "is not 1 to 64 of A-Z a-z 0-9 . _ : -, nor may it be . or .."
        raise field_error("out_of_range", at, f"{describe_value(value)} {taken}")
    return value


def label(value: Any, at: str) -> str:
    """1 to 128 bytes of printable text, in form NFC, or a whole number. Raises RejectedEvent."""
    if type(value) is int and value >= 0:
        value = str(value) if value.bit_length() <= 8 * MAX_LABEL_BYTES else "9" * MAX_TEXT
    if type(value) is not str:
        raise _wrong_type(value, at, "an id is text or a whole number")
    name: str = unicodedata.normalize("NFC", value) if len(value) <= MAX_TEXT else value
    is_short = name.strip() and len(name.encode("utf-8", "replace")) <= MAX_LABEL_BYTES
    if not is_short or any(unicodedata.category(sign) in _UNPRINTABLE for sign in name):
        taken = f"is not 1 to {MAX_LABEL_BYTES} bytes of printable text"
        raise field_error("out_of_range", at, f"{describe_value(value)} {taken}")
    return name


def text(value: Any, at: str, shortest: int = 0) -> str:
    """Text of `shortest` to 256 characters. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise _wrong_type(value, at, "text is wanted")
    if not shortest <= len(value) <= MAX_TEXT:
        taken = f"{shortest} to {MAX_TEXT} characters are taken"
        raise field_error("out_of_range", at, f"{taken}, got {len(value)}")
    return value


def whole_number(value: Any, at: str, least: int, most: int) -> int:
    """A whole JSON number from least to most; 3.0 is one, too. Raises RejectedEvent."""
    is_short = type(value) is Decimal and value.adjusted() < _MAX_WHOLE_DIGITS
    if is_short and value == value.to_integral_value():
        value = int(value)
    if type(value) is not int:
        raise _wrong_type(value, at, "a whole number is wanted")
    if not least <= value <= most:
        taken = f"{least} to {most} is taken"
        raise field_error("out_of_range", at, f"{taken}, got {describe_value(value)}")
    return value


def currency_code(value: Any, at: str) -> str:
    """The ISO 4217 code of a currency. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise _wrong_type(value, at, "text is wanted")
    if value not in CURRENCIES:
        what = f"{describe_value(value)} is no currency of ISO 4217, e.g. USD"
        raise field_error("out_of_range", at, what)
    return value


def matching(value: Any, at: str, pattern: re.Pattern[str]) -> str:
    """A text that matches the pattern. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise _wrong_type(value, at, "text is wanted")
    if pattern.fullmatch(value) is None:
        raise field_error("out_of_range", at, f"is not of the form {pattern.pattern}")
    return value


def choice(value: Any, at: str, taken: Sequence[_Word]) -> _Word:
    """One of some words. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise _wrong_type(value, at, "text is wanted")
    if value not in taken:
        what = f"{describe_value(value)} is none of {', '.join(taken)}"
        raise field_error("out_of_range", at, what)
    return cast(_Word, value)


def flag(value: Any, at: str) -> bool:
    """true or false. Raises RejectedEvent wrong_type."""
    if type(value) is not bool:
        raise _wrong_type(value, at, "true or false is wanted")
    return value


def is_heartbeat(fields: Fields, without: Sequence[str]) -> bool:
    """Whether a message is a heartbeat; one with a field of `without` raises RejectedEvent."""
    if not flag(fields.get("heartbeat", False), "/heartbeat"):
        return False
    if present := [name for name in without if name in fields]:
        what = "a heartbeat tells of nothing else; send two messages"
        raise field_error("out_of_range", f"/{present[0]}", what)
    return True


def refuse_unknown_version(fields: Fields, known: int) -> None:
    """Raises RejectedEvent unknown_schema_version for any named version but the known one."""
    version = fields.get("schema_version", known)
    if type(version) is not int or version != known:
        what = f"{describe_value(version)} is not known; {known} is"
        raise field_error("unknown_schema_version", "/schema_version", what)


def describe_value(value: Any) -> str:
    """The value for an error message: short, on one line."""
    if type(value) is int and value.bit_length() > 256:
        return "a whole number of very many digits"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    shown = str(value) if isinstance(value, Decimal) else ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def decimal_number(value: Any, at: str, whole_digits: int = _MONEY_DIGITS) -> Decimal:
    """A JSON number or decimal text of so many `whole_digits` at most. Raises RejectedEvent.

    It is exact but for binary floats' noise, without trailing zeros: a value has one spelling.
    """
    kind = type(value)
    if kind is Decimal:
        number = value
    elif kind is int or (kind is str and _DECIMAL_TEXT.fullmatch(value) is not None):
        number = Decimal(value)
    else:
        raise _wrong_type(value, at, 'a number or decimal text like "12.30" is wanted')
    if not number:
        return _ZERO
    # adjusted() is checked first: a number of a million digits is refused without computing it.
    if not _MIN_EXPONENT <= number.adjusted() < whole_digits:
        raise _out_of_range(value, at, whole_digits)
    try:
        return _without_noise(_BOUNDED.normalize(number), _PRICE_STEP)
    except Inexact:
        raise _out_of_range(value, at, whole_digits) from None


def line_total(price: Decimal, amount_milli: int, at: str) -> Decimal:
    """price × amount, exact. Raises RejectedEvent out_of_range."""
    total = EXACT.normalize(EXACT.multiply(price, Decimal(amount_milli).scaleb(-3)))
    if total and total.adjusted() >= _MONEY_DIGITS:
        raise _out_of_range(total, at, _MONEY_DIGITS)
    return total or _ZERO


def quantity_milli(value: Any, at: str, is_rounded: bool = False) -> int:
    """A number in thousandths; `is_rounded` allows more than 3 decimals. Raises RejectedEvent."""
    amount = _without_noise(decimal_number(value, at, _QUANTITY_DIGITS), _QUANTITY_STEP)
    if is_rounded:
        amount = amount.quantize(_QUANTITY_STEP, ROUND_HALF_UP, EXACT)
    try:
        return to_thousandths(amount)
    except ValueError as error:
        raise field_error("out_of_range", at, str(error)) from error


def _wrong_type(value: Any, at: str, wanted: str) -> RejectedEvent:
    return field_error("wrong_type", at, f"{wanted}, got {describe_value(value)}")


def _without_noise(number: Decimal, step: Decimal) -> Decimal:
    """The number, rounded to a multiple of `step` if it differs only by binary float noise."""
    rounded = number.quantize(step, context=EXACT)
    noise = abs(number - rounded)
    if noise and noise <= max(_NOISE, _RELATIVE_NOISE * abs(number)):
        return EXACT.normalize(rounded) or _ZERO
    return number


def _out_of_range(value: Any, at: str, whole_digits: int) -> RejectedEvent:
    taken = f"numbers below {10**whole_digits:,} of at most {_MAX_DIGITS} digits are taken"
    return field_error("out_of_range", at, f"{taken}, got {describe_value(value)}")
