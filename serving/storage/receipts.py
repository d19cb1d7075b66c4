"""The stored receipts of a store, and the protocol of their readers."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol


class ReceiptHead(NamedTuple):
    """A receipt's id, its offset, which orders the receipts of a store, and its closing time."""

    event_id: str
    offset: int
    happened_at: datetime


class StoredReceipt(NamedTuple):
    """A receipt with its lines, each as the JSON text of the canonical record."""

    event_id: str
    offset: int
    kind: str
    currency: str
    lines: Sequence[str]


class ReceiptReader(Protocol):
    """Reads of the raw receipts.

    Every method raises ViewsUnreachable rather than answer in part. Of several copies with the same
    event_id and instant only the first by offset exists.
    """

    async def heads(
        self, store_id: str, day: date, span: tuple[datetime, datetime], most: int
    ) -> list[ReceiptHead]:
        """Receipts of a UTC day that were closed in [start, end) of the span, at most `most`."""
        ...

    async def voids(self, store_id: str, day: date, most: int) -> list[ReceiptHead]:
        """The voids among the receipts of a UTC day, at most `most`."""
        ...

    async def receipts(self, store_id: str, first: datetime, last: datetime) -> list[StoredReceipt]:
        """Receipts closed from one instant to another, both inclusive and of one UTC day."""
        ...
