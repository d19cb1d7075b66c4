"""Reads of the raw receipts from Cassandra, with LOCAL_QUORUM."""

from collections.abc import Iterable
from datetime import UTC, date, datetime

from serving.storage import statements
from serving.storage.connection import Connection, CqlRow
from serving.storage.offload import run_in_thread_if_large
from serving.storage.receipts import ReceiptHead, StoredReceipt
from tally.time.instants import assume_utc


class CassandraReceipts:
    """A ReceiptReader over the connection of the views."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def heads(
        self, store_id: str, day: date, span: tuple[datetime, datetime], most: int
    ) -> list[ReceiptHead]:
        """A slice of one partition, without the lines."""
        values = (day.isoformat(), store_id, *span, most)
        rows = await self._connection.rows(statements.RECEIPT_HEADS, values)
        return await run_in_thread_if_large(len(rows), _heads, rows)

    async def voids(self, store_id: str, day: date, most: int) -> list[ReceiptHead]:
        """The voids of one partition; the node filters out the other receipts."""
        values = (day.isoformat(), store_id, most)
        rows = await self._connection.rows(statements.RECEIPT_VOIDS, values)
        return await run_in_thread_if_large(len(rows), _heads, rows)

    async def receipts(self, store_id: str, first: datetime, last: datetime) -> list[StoredReceipt]:
        """A slice of one partition."""
        day = first.astimezone(UTC).date().isoformat()
        values = (day, store_id, first, last)
        rows = await self._connection.rows(statements.RECEIPTS, values)
        found = map(StoredReceipt._make, rows)
        # Cassandra may return an empty list as null.
        return [receipt._replace(lines=receipt.lines or []) for receipt in found]


def _heads(rows: Iterable[CqlRow]) -> list[ReceiptHead]:
    return [ReceiptHead(event_id, offset, assume_utc(closed)) for event_id, offset, closed in rows]
