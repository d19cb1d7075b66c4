"""A record as the processor takes it in, and as a step gives it out."""

from collections.abc import Callable, Sequence

import msgspec

Headers = Sequence[tuple[str, bytes]]


class Input(msgspec.Struct, frozen=True):
    """One record of an input topic; timestamp in milliseconds since 1970 (UTC), as Kafka has it."""

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


# Seconds since 1970 (UTC); None when the record has no place in event time and is to go straight
# through.
EventTime = Callable[[Input], float | None]
