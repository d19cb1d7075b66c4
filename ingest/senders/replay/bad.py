"""Messages that break the POS contract, each in its own way, made from a good one."""

from collections.abc import Callable

_DEEP = 100

# The reason of the dead letter, and how to corrupt a message to get it. The good message begins
# with happened_at and ends in `]}`.
CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "not_json": lambda message: message[:-2],
    "missing_field": lambda message: message.replace(b'"operation_id"', b'"shop"', 1),
    "wrong_type": lambda message: message.replace(b'"amount":', b'"amount":true,"pieces":', 1),
    "out_of_range": lambda message: message.replace(b'"price":', b'"price":1e400,"list_price":', 1),
    "timestamp_without_zone": lambda message: message.replace(b'+00:00"', b'"', 1),
    "timestamp_not_rfc3339": lambda message: (
        b'{"happened_at":"19.09.2017 22:48"' + message[message.index(b",") :]
    ),
    "future_time": lambda message: (
        b'{"happened_at":"2106-01-01T00:00:00Z"' + message[message.index(b",") :]
    ),
    "duplicate_field": lambda message: message.removesuffix(b"}") + b',"operation_id":1}',
    "not_utf8": lambda message: message.replace(b'"item":"', b'"item":"\xff', 1),
    "too_deep": lambda message: (
        message.removesuffix(b"}") + b',"note":' + b"[" * _DEEP + b"]" * _DEEP + b"}"
    ),
    "unknown_schema_version": lambda message: message.removesuffix(b"}") + b',"schema_version":99}',
}
_KINDS = tuple(CORRUPTIONS.values())


def corrupt_message(number: int, message: bytes) -> bytes:
    """A message that must become a dead letter; the kinds take turns by number."""
    return _KINDS[number % len(_KINDS)](message)
