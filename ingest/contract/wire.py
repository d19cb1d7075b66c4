"""Parses bytes as one JSON object, or says why they are not one."""

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from tally.errors import RejectedEvent

MAX_DEPTH = 32
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
        raise RejectedEvent(
            "too_large",
            "",
            f"the message has {len(message):,} bytes; at most {max_bytes:,} are taken",
        )
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
        raise RejectedEvent(
            "not_utf8", "", f"the message is not UTF-8: {error.reason} in a text"
        ) from error
    except RecursionError as error:
        raise _depth_error() from error
    except (msgspec.ValidationError, InvalidOperation) as error:
        raise RejectedEvent(
            "out_of_range", "", "a number has too many digits or too large an exponent"
        ) from error
    except msgspec.DecodeError as error:
        raise _decoding_error(message, error) from error


def _decoding_error(message: bytes, error: Exception) -> RejectedEvent:
    try:
        message.decode()
    except UnicodeDecodeError as bad:
        return RejectedEvent(
            "not_utf8", "", f"the message is not UTF-8: {bad.reason} at byte {bad.start}"
        )
    return RejectedEvent("not_json", "", f"the message is not JSON: {error}{_hint(message)}")


def _hint(message: bytes) -> str:
    """A hint at the cause, where the decoder's own message does not name it."""
    if message.startswith(b"\xef\xbb\xbf"):
        return "; it begins with a byte order mark: send UTF-8 without one"
    return "; a \\u escape of a lone surrogate is no text" if b"\\ud" in message.lower() else ""


def _depth_error() -> RejectedEvent:
    return RejectedEvent(
        "too_deep", "", f"objects and arrays are nested more than {MAX_DEPTH} deep"
    )


def _count_keys(tree: Any, depth: int) -> int:
    """Number of keys in all objects of the tree."""
    if depth == 0:
        raise _depth_error()
    if type(tree) is dict:
        return len(tree) + sum(
            [
                _count_keys(value, depth - 1)
                for value in tree.values()
                if type(value) in _OBJECT_OR_ARRAY
            ]
        )
    return sum([_count_keys(value, depth - 1) for value in tree if type(value) in _OBJECT_OR_ARRAY])


def _refuse_duplicate_fields(message: bytes) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        """Check the fields of one object; inner objects come first.

        Raises RejectedEvent for a name that occurs twice.
        """
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise RejectedEvent(
                    "duplicate_field",
                    pointer(name),
                    f"the field {name[:60]!r} occurs twice in one object",
                )
            seen.add(name)

    try:
        # Numbers stay texts here: this parser's limits on them must not apply.
        json.loads(message, object_pairs_hook=check, parse_int=str, parse_float=str)
    except ValueError as error:
        raise RejectedEvent("not_json", "", f"the message is not JSON: {error}") from error


def pointer(*names: str | int) -> str:
    """JSON pointer (RFC 6901) of a path of names and positions, cut to a bounded length.

    >>> pointer("transactions", 0, "price")
    '/transactions/0/price'
    """
    return "".join("/" + _escape(str(name)) for name in names)[:200]


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
