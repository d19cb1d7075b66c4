"""Readers of single fields.

Each returns the normalised value or raises RejectedEvent with reason, pointer and message.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar, cast

from ingest.contract.wire import pointer
from ingest.installation.arrival import Arrival, Rules
from tally.errors import BadInstant, RejectedEvent
from tally.events.identity import IDENTIFIER
from tally.events.money import CURRENCIES
from tally.time.instants import format_utc, parse_instant
from tally.time.windows import WINDOW, window_start

MAX_TEXT = 256
MAX_LABEL_BYTES = 128
_MAX_WHOLE_DIGITS = 9
# Categories of Unicode: control, format, surrogate, private, unassigned, line and paragraph ends.
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
# The dead letter's word for each kind of BadInstant.
_REASONS = {"not_rfc3339": "timestamp_not_rfc3339", "without_zone": "timestamp_without_zone"}

Fields = Mapping[str, Any]
_Word = TypeVar("_Word", bound=str)


def require_field(fields: Fields, name: str, at: str = "") -> Any:
    """The field's raw value. Raises RejectedEvent missing_field."""
    try:
        return fields[name]
    except KeyError:
        raise RejectedEvent(
            "missing_field", at + pointer(name), f"{at}{pointer(name)}: the field is missing"
        ) from None


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
        arrived = format_utc(arrival.received_at)
        raise RejectedEvent(
            "future_time",
            "/happened_at",
            f"/happened_at: {value} lies after its arrival at {arrived}",
        )
    if happened_at.date() < rules.earliest_event:
        raise RejectedEvent(
            "clock_reset",
            "/happened_at",
            f"/happened_at: {value} lies before {rules.earliest_event} (TALLY_EARLIEST_EVENT): the"
            " sender's clock has fallen back",
        )
    return happened_at


def instant(value: Any, at: str) -> datetime:
    """An RFC 3339 instant, in UTC. Raises RejectedEvent: wrong_type, timestamp_…"""
    if type(value) is not str:
        problem = "an RFC 3339 text like 2017-09-19T22:48:03+00:00 is wanted"
        raise RejectedEvent("wrong_type", at, f"{at}: {problem}")
    try:
        return parse_instant(value, at)
    except BadInstant as error:
        raise RejectedEvent(_REASONS[error.kind], at, str(error)) from error


def refuse_crossing(start: datetime, seconds: int) -> None:
    """Raise RejectedEvent interval_crosses_window unless the interval lies inside one window.

    The interval is [start, start + seconds): it may end where its window ends.
    """
    if start + timedelta(seconds=seconds) > window_start(start) + WINDOW:
        raise RejectedEvent(
            "interval_crosses_window",
            "/interval_seconds",
            "/interval_seconds: the interval must lie inside one 15-minute window",
        )


def identifier(value: Any, at: str) -> str:
    """1 to 64 of [A-Za-z0-9._:-]; a whole number that is not negative is taken as its text.

    Raises RejectedEvent: wrong_type, out_of_range.
    """
    # Tills send 17 and "17" for the same store; both must give the same identity.
    if type(value) is int and value >= 0:
        value = str(value) if value.bit_length() <= 212 else "9" * 65
    if type(value) is not str:
        raise RejectedEvent(
            "wrong_type",
            at,
            f"{at}: an identifier is text or a whole number, got {describe_value(value)}",
        )
    if IDENTIFIER.fullmatch(value) is None:
        raise RejectedEvent(
            "out_of_range",
            at,
            f"{at}: {describe_value(value)} is not 1 to 64 of A-Z a-z 0-9 . _ : -, nor may"
            " it be . or ..",
        )
    return value


def label(value: Any, at: str) -> str:
    """A number or name that a vendor gives out: 1 to 128 bytes of UTF-8 without control characters.

    The result is in Unicode's form NFC; a whole number that is not negative is taken as its text.
    Raises RejectedEvent: wrong_type, out_of_range.
    """
    if type(value) is int and value >= 0:
        value = str(value) if value.bit_length() <= 8 * MAX_LABEL_BYTES else "9" * MAX_TEXT
    if type(value) is not str:
        raise RejectedEvent(
            "wrong_type", at, f"{at}: an id is text or a whole number, got {describe_value(value)}"
        )
    name: str = unicodedata.normalize("NFC", value) if len(value) <= MAX_TEXT else value
    is_short = name.strip() and len(name.encode("utf-8", "replace")) <= MAX_LABEL_BYTES
    if not is_short or any(unicodedata.category(sign) in _UNPRINTABLE for sign in name):
        raise RejectedEvent(
            "out_of_range",
            at,
            f"{at}: {describe_value(value)} is not 1 to {MAX_LABEL_BYTES} bytes of printable text",
        )
    return name


def text(value: Any, at: str, shortest: int = 0) -> str:
    """Text of `shortest` to 256 characters. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise RejectedEvent("wrong_type", at, f"{at}: text is wanted, got {describe_value(value)}")
    if not shortest <= len(value) <= MAX_TEXT:
        raise RejectedEvent(
            "out_of_range",
            at,
            f"{at}: {shortest} to {MAX_TEXT} characters are taken, got {len(value)}",
        )
    return value


def whole_number(value: Any, at: str, least: int, most: int) -> int:
    """A whole JSON number from least to most; 3.0 is a whole number, as in JSON Schema.

    Raises RejectedEvent: wrong_type, out_of_range.
    """
    if (
        type(value) is Decimal
        and value.adjusted() < _MAX_WHOLE_DIGITS
        and value == value.to_integral_value()
    ):
        value = int(value)
    if type(value) is not int:
        raise RejectedEvent(
            "wrong_type", at, f"{at}: a whole number is wanted, got {describe_value(value)}"
        )
    if not least <= value <= most:
        raise RejectedEvent(
            "out_of_range", at, f"{at}: {least} to {most} is taken, got {describe_value(value)}"
        )
    return value


def currency_code(value: Any, at: str) -> str:
    """The ISO 4217 code of a currency. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise RejectedEvent("wrong_type", at, f"{at}: text is wanted, got {describe_value(value)}")
    if value not in CURRENCIES:
        raise RejectedEvent(
            "out_of_range",
            at,
            f"{at}: {describe_value(value)} is no currency of ISO 4217, e.g. USD",
        )
    return value


def matching(value: Any, at: str, pattern: re.Pattern[str]) -> str:
    """A text that matches the pattern. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise RejectedEvent("wrong_type", at, f"{at}: text is wanted, got {describe_value(value)}")
    if pattern.fullmatch(value) is None:
        raise RejectedEvent("out_of_range", at, f"{at}: is not of the form {pattern.pattern}")
    return value


def choice(value: Any, at: str, taken: Sequence[_Word]) -> _Word:
    """One of some words. Raises RejectedEvent: wrong_type, out_of_range."""
    if type(value) is not str:
        raise RejectedEvent("wrong_type", at, f"{at}: text is wanted, got {describe_value(value)}")
    if value not in taken:
        raise RejectedEvent(
            "out_of_range", at, f"{at}: {describe_value(value)} is none of {', '.join(taken)}"
        )
    return cast(_Word, value)


def flag(value: Any, at: str) -> bool:
    """true or false. Raises RejectedEvent wrong_type."""
    if type(value) is not bool:
        raise RejectedEvent(
            "wrong_type", at, f"{at}: true or false is wanted, got {describe_value(value)}"
        )
    return value


def is_heartbeat(fields: Fields, without: Sequence[str]) -> bool:
    """Whether a sensor's message is a heartbeat, without any measurement.

    Raises RejectedEvent: wrong_type; out_of_range if a heartbeat has one of the fields `without`.
    """
    if not flag(fields.get("heartbeat", False), "/heartbeat"):
        return False
    if present := [name for name in without if name in fields]:
        raise RejectedEvent(
            "out_of_range",
            f"/{present[0]}",
            f"/{present[0]}: a heartbeat tells of nothing else; send two messages",
        )
    return True


def refuse_unknown_version(fields: Fields, known: int) -> None:
    """Raises RejectedEvent unknown_schema_version for any named version but the known one."""
    version = fields.get("schema_version", known)
    if type(version) is not int or version != known:
        message = f"/schema_version: {describe_value(version)} is not known; {known} is"
        raise RejectedEvent("unknown_schema_version", "/schema_version", message)


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
