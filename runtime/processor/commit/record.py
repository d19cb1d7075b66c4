"""Input and output records of a processor."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from tally.errors import UnrecoverableError

Headers = Sequence[tuple[str, bytes]]
Value = TypeVar("Value")


class Input(msgspec.Struct, frozen=True):
    """One record of an input topic; its Kafka timestamp is in milliseconds since 1970 (UTC)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Output(msgspec.Struct, frozen=True):
    """One record to send; partition -1: the client chooses one by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = -1
    headers: Headers = ()


# A function to seconds since 1970 (UTC), or None when the record has no event time and must not
# wait for others.
EventTime = Callable[[Input], float | None]


def parse_state(record: Input, parse: Callable[[bytes], Value]) -> Value:
    """Parse a record of a step's own state. Raises UnrecoverableError if it cannot be read."""
    try:
        return parse(record.value or b"")
    except msgspec.DecodeError as error:
        raise UnrecoverableError(
            f"{record.topic}, partition {record.partition}, offset {record.offset}: {error};"
            " it was written by another version: start the one that wrote it"
        ) from error
