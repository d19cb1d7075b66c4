"""The stored receipts of a store, read with LOCAL_QUORUM."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from runtime.http.work_pools import run_in_thread_if_large
from serving.storage import statements
from serving.storage.connection import Connection, CqlRow
from tally.time.instants import assume_utc


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


class ReceiptReader:
    """Reads of the raw receipts, over the connection of the views.

    Every method raises ViewsUnreachable rather than answer in part. Of several copies with the same
    event_id and instant only the first by offset exists.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def heads(
        self, store_id: str, day: date, span: tuple[datetime, datetime], most: int
    ) -> list[ReceiptHead]:
        """Receipts of a UTC day that were closed in [start, end) of the span, at most `most`."""
        values = (day.isoformat(), store_id, *span, most)
        rows = await self._connection.rows(statements.RECEIPT_HEADS, values)
        return await run_in_thread_if_large(len(rows), _heads, rows)

    async def voids(self, store_id: str, day: date, most: int) -> list[ReceiptHead]:
        """The voids among the receipts of a UTC day, at most `most`."""
        values = (day.isoformat(), store_id, most)
        rows = await self._connection.rows(statements.RECEIPT_VOIDS, values)
        return await run_in_thread_if_large(len(rows), _heads, rows)

    async def receipts(self, store_id: str, first: datetime, last: datetime) -> list[StoredReceipt]:
        """Receipts closed from one instant to another, both inclusive and of one UTC day."""
        day = first.astimezone(UTC).date().isoformat()
        values = (day, store_id, first, last)
        rows = await self._connection.rows(statements.RECEIPTS, values)
        found = map(StoredReceipt._make, rows)
        # Cassandra may return an empty list as null.
        return [receipt._replace(lines=receipt.lines or []) for receipt in found]


def _heads(rows: Iterable[CqlRow]) -> list[ReceiptHead]:
    return [ReceiptHead(event_id, offset, assume_utc(closed)) for event_id, offset, closed in rows]
