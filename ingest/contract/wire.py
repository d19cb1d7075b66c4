"""Parses bytes as one JSON object, and keeps its unknown fields, without personal data."""

import json
import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from tally.errors import RejectedEvent
from tally.people.redact import MARK, is_personal, redact_text, redact_value

MAX_DEPTH = 32
MAX_BYTES = 16_384
MAX_NAME = 256
# Numbers beyond these bounds are kept as text: some JSON readers refuse numbers of such a length,
# and others read them as another number.
_MAX_DIGITS = 34
_MAX_EXPONENT = 300
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_KEY_END = re.compile(rb'"[ \t\r\n]*:')
_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_OBJECT_OR_ARRAY = (dict, list)

JsonObject = dict[str, Any]


def parse_object(message: bytes | None, max_bytes: int) -> JsonObject:
    """The message as a JSON object.

    Numbers with a point or exponent become a Decimal of their text, others an int.

    Raises RejectedEvent: too_large, not_utf8, not_json, too_deep, out_of_range, duplicate_field,
    wrong_type.
    """
    if message is None:
        raise RejectedEvent("not_json", "", "the message has no value (null)")
    if len(message) > max_bytes:
        what = f"the message has {len(message):,} bytes; at most {max_bytes:,} are taken"
        raise RejectedEvent("too_large", "", what)
    tree = _decode(message)
    if type(tree) is not dict:
        raise RejectedEvent("wrong_type", "", "the message is not a JSON object")
    # Each key ends in one match, so more matches than keys mean a repeated key or a string that
    # looks like a key.
    if len(_KEY_END.findall(message)) != _count_keys(tree, MAX_DEPTH):
        _refuse_duplicate_fields(message)
    return tree


def _decode(message: bytes) -> Any:
    try:
        return _DECODER.decode(message)
    except UnicodeDecodeError as error:
        what = f"the message is not UTF-8: {error.reason} in a text"
        raise RejectedEvent("not_utf8", "", what) from error
    except RecursionError as error:
        raise _depth_error() from error
    except (msgspec.ValidationError, InvalidOperation) as error:
        what = "a number has too many digits or too large an exponent"
        raise RejectedEvent("out_of_range", "", what) from error
    except msgspec.DecodeError as error:
        raise _decoding_error(message, error) from error


def _decoding_error(message: bytes, error: Exception) -> RejectedEvent:
    try:
        message.decode()
    except UnicodeDecodeError as bad:
        what = f"the message is not UTF-8: {bad.reason} at byte {bad.start}"
        return RejectedEvent("not_utf8", "", what)
    return RejectedEvent("not_json", "", f"the message is not JSON: {error}{_hint(message)}")


def _hint(message: bytes) -> str:
    """A hint at the cause, where the decoder's own message does not name it."""
    if message.startswith(b"\xef\xbb\xbf"):
        return "; it begins with a byte order mark: send UTF-8 without one"
    return "; a \\u escape of a lone surrogate is no text" if b"\\ud" in message.lower() else ""


def _depth_error() -> RejectedEvent:
    what = f"objects and arrays are nested more than {MAX_DEPTH} deep"
    return RejectedEvent("too_deep", "", what)


def _count_keys(tree: Any, depth: int) -> int:
    """Number of keys in all objects of the tree."""
    if depth == 0:
        raise _depth_error()
    own, values = 0, tree
    if type(tree) is dict:
        own, values = len(tree), tree.values()
    inner = [_count_keys(value, depth - 1) for value in values if type(value) in _OBJECT_OR_ARRAY]
    return own + sum(inner)


def _refuse_duplicate_fields(message: bytes) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        """Check one object, inner ones first. Raises RejectedEvent for a repeated name."""
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                what = f"the field {name[:60]!r} occurs twice in one object"
                raise RejectedEvent("duplicate_field", pointer(name), what)
            seen.add(name)

    try:
        # Numbers stay texts here: this parser's limits on them must not apply.
        json.loads(message, object_pairs_hook=check, parse_int=str, parse_float=str)
    except ValueError as error:
        raise RejectedEvent("not_json", "", f"the message is not JSON: {error}") from error


def field_error(reason: str, at: str, what: str) -> RejectedEvent:
    """The error of the field at a JSON pointer, with which its message begins."""
    return RejectedEvent(reason, at, f"{at}: {what}")


def pointer(*names: str | int) -> str:
    """JSON pointer (RFC 6901) of a path of names and positions, cut to a bounded length.

    >>> pointer("transactions", 0, "price")
    '/transactions/0/price'
    """
    escaped = (str(name).replace("~", "~0") for name in names)
    return "".join("/" + name.replace("/", "~1") for name in escaped)[:200]


def unknown_fields(fields: JsonObject, known: Collection[str]) -> JsonObject:
    """The fields whose names are not known."""
    return {name: value for name, value in fields.items() if name not in known}


def clean_extra(extra: JsonObject) -> JsonObject | None:
    """The unknown fields as a record carries them; None without any. Raises RejectedEvent."""
    if not extra:
        return None
    clean_fields = {
        _clean_name(name, name): _clean_value(value, name, name) for name, value in extra.items()
    }
    if len(_ENCODER.encode(clean_fields)) > MAX_BYTES:

        def size(name: str) -> int:
            return len(_ENCODER.encode(clean_fields[name])) + len(name)

        raise _too_large(max(clean_fields, key=size))
    return clean_fields


def _too_large(top: str) -> RejectedEvent:
    taken = f"all unknown fields together may have {MAX_BYTES:,} bytes; send what is needed only"
    return field_error("too_large", pointer(top), taken)


def _clean_value(value: Any, name: str, top: str) -> Any:
    """The value that is kept of a field of this name, inside the unknown field `top`."""
    if type(value) is str:
        # A text too long to keep is not searched: a megabyte would keep every other thread waiting.
        if len(value) > MAX_BYTES and not is_personal(name):
            raise _too_large(top)
        return redact_value(name, value)
    if is_personal(name):
        return MARK
    if type(value) is dict:
        return {
            _clean_name(inner, top): _clean_value(inner_value, inner, top)
            for inner, inner_value in value.items()
        }
    if type(value) is list:
        return [_clean_value(inner_value, name, top) for inner_value in value]
    return _plain_number(value, name) if type(value) in (int, Decimal) else value


def _clean_name(name: str, top: str) -> str:
    if len(name) > MAX_NAME:
        taken = f"names of at most {MAX_NAME} characters are taken"
        raise field_error("too_large", pointer(top), f"{taken}, got {len(name):,}")
    return redact_text(name)[:MAX_NAME]


def _plain_number(number: int | Decimal, name: str) -> int | Decimal | str:
    """The number, or its text if it may be a card number or is too large for JSON readers."""
    if isinstance(number, int):
        bounded = -(2**63) <= number < 2**63
    else:
        digits = len(number.as_tuple().digits)
        bounded = abs(number.adjusted()) <= _MAX_EXPONENT and digits <= _MAX_DIGITS
    written = str(number)
    clean = redact_value(name, written)
    return number if bounded and clean == written else clean
