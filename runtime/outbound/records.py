"""Records that every sender of messages stores in its state topic, and their encoding."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

Record = TypeVar("Record")


class UndeliveredMessages(Struct, frozen=True):
    """The messages of a channel that have not arrived, in one partition.

    `waiting_since`: the first due time of the oldest waiting message, None if none waits; `dead`:
    the number of stored messages that were given up; `blocked`: the number of messages that wait
    for a repair of secrets, address or permissions.
    """

    waiting_since: int | None = None
    dead: int = 0
    blocked: int = 0


class TickTime(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="is",
    tag="tick",
):
    """How far time had come: number and instant of the newest tick.

    `undelivered`: by channel what had not arrived then.
    """

    n: int
    at: int
    undelivered: dict[str, UndeliveredMessages] = {}

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return "tick"


class DroppedRecord(Struct, frozen=True):
    """A record to delete, by its key in the topic."""

    topic_key: bytes


class RecordCodec(Generic[Record]):
    """Keys and values of records in a state topic; `key_text`: the key of a record as text."""

    def __init__(self, kinds: Any, key_text: Callable[[Record], str]) -> None:
        self._decoder, self._encoder = msgspec.json.Decoder(kinds), msgspec.json.Encoder()
        self._key_text = key_text

    def key(self, change: Record | DroppedRecord) -> bytes:
        """The record's key in the topic."""
        if isinstance(change, DroppedRecord):
            return change.topic_key
        return self._key_text(change).encode()

    def encode(self, change: Record | DroppedRecord) -> bytes | None:
        """The record's value: JSON whose field `is` names its kind; None deletes the record."""
        return None if isinstance(change, DroppedRecord) else self._encoder.encode(change)

    def decode(self, value: bytes) -> Record:
        """The record in a value of the topic.

        Raises msgspec.DecodeError, whose subclass ValidationError is included.
        """
        found: Record = self._decoder.decode(value)
        return found
