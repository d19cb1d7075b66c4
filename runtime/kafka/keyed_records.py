"""Records of topics with keys: the newest of each key, and those that cannot be read."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import structlog

log = structlog.get_logger()


class KeyedRecord(Protocol):
    """A record as it was read; without a value it deletes its key."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> int:
        """The partition."""

    @property
    def offset(self) -> int:
        """The offset."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The value."""


Record = TypeVar("Record", bound=KeyedRecord)
Value = TypeVar("Value")


def newest_values(
    records: Iterable[Record], parse: Callable[[Record], Value]
) -> dict[int, dict[bytes, Value]]:
    """The newest value of each key of a compacted topic, by partition, without deleted keys.

    The number of a partition counts from 0. Its values come in the order in which they were written
    last. Each record is parsed when it is read, so that no raw values are held.
    """
    newest: dict[int, dict[bytes, Value]] = {}
    for record in records:
        values, key = newest.setdefault(record.partition, {}), record.key or b""
        # The key moves to the end.
        values.pop(key, None)
        if record.value is not None:
            values[key] = parse(record)
    return newest


def log_unreadable(record: KeyedRecord, error: Exception) -> None:
    """Log a record of another program that cannot be read; the caller goes on with the next.

    To stop at such a record would block all records behind it.
    """
    log.error(
        "record not understood and left out",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=str(error)[:200],
    )
