"""Bytes to one JSON object, or the reason why they are none."""

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


def parsed(message: bytes | None, max_bytes: int) -> JsonObject:
    """The message as a JSON object.

    Numbers with a point or exponent as Decimal of their text, others as int.

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
    tree = _decoded(message)
    if type(tree) is not dict:
        raise RejectedEvent("wrong_type", "", "the message is not a JSON object")
    # Each key ends in one match, so more matches than keys mean a repeated key or a string that
    # looks like one.
    if len(_KEY_END.findall(message)) != _keys(tree, MAX_DEPTH):
        _refuse_duplicate_fields(message)
    return tree


def _decoded(message: bytes) -> Any:
    try:
        return _DECODER.decode(message)
    except UnicodeDecodeError as error:
        raise RejectedEvent(
            "not_utf8", "", f"the message is not UTF-8: {error.reason} in a text"
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.ValidationError, InvalidOperation) as error:
        raise RejectedEvent(
            "out_of_range", "", "a number has too many digits or too large an exponent"
        ) from error
    except msgspec.DecodeError as error:
        raise _unreadable(message, error) from error


def _unreadable(message: bytes, error: Exception) -> RejectedEvent:
    try:
        message.decode()
    except UnicodeDecodeError as bad:
        return RejectedEvent(
            "not_utf8", "", f"the message is not UTF-8: {bad.reason} at byte {bad.start}"
        )
    return RejectedEvent("not_json", "", f"the message is not JSON: {error}{_hint(message)}")


def _hint(message: bytes) -> str:
    """What the decoder's own words do not say."""
    if message.startswith(b"\xef\xbb\xbf"):
        return "; it begins with a byte order mark: send UTF-8 without one"
    return "; a \\u escape of a lone surrogate is no text" if b"\\ud" in message.lower() else ""


def _too_deep() -> RejectedEvent:
    return RejectedEvent(
        "too_deep", "", f"objects and arrays are nested more than {MAX_DEPTH} deep"
    )


def _keys(tree: Any, depth: int) -> int:
    """Number of keys in all objects of the tree."""
    if depth == 0:
        raise _too_deep()
    if type(tree) is dict:
        return len(tree) + sum(
            [_keys(value, depth - 1) for value in tree.values() if type(value) in _OBJECT_OR_ARRAY]
        )
    return sum([_keys(value, depth - 1) for value in tree if type(value) in _OBJECT_OR_ARRAY])


def _refuse_duplicate_fields(message: bytes) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        """The fields of one object, inner ones first. Raises RejectedEvent for a name that is there
        twice."""
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
        # Numbers are not looked at here: their readers may not limit what the first decoder took.
        json.loads(message, object_pairs_hook=check, parse_int=str, parse_float=str)
    except ValueError as error:
        raise RejectedEvent("not_json", "", f"the message is not JSON: {error}") from error


def pointer(*names: str | int) -> str:
    """JSON pointer (RFC 6901) of a path of names and positions, cut to a bounded length.

    >>> pointer("transactions", 0, "price")
    '/transactions/0/price'
    """
    return "".join("/" + _escaped(str(name)) for name in names)[:200]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
