"""The receipts of a store as they were stored, and the protocol of whoever reads them."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol


class ReceiptHead(NamedTuple):
    """Which receipt it is, by its offset the how manieth of its store, and when it was closed."""

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

    Every method raises ViewsUnreachable rather than answer in part. Of copies with the same
    event_id and instant there is the first by offset alone.
    """

    async def heads(
        self, store_id: str, day: date, span: tuple[datetime, datetime], most: int
    ) -> list[ReceiptHead]:
        """Receipts of a UTC day that were closed in [start, end) of the span, at most so many."""
        ...

    async def voids(self, store_id: str, day: date, most: int) -> list[ReceiptHead]:
        """Those of a UTC day that are voids, at most so many."""
        ...

    async def receipts(self, store_id: str, first: datetime, last: datetime) -> list[StoredReceipt]:
        """Receipts closed from one instant to another, both inclusive and of one UTC day."""
        ...
