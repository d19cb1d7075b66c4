"""Stored receipts as a test describes them: read from memory, or inserted into a real Cassandra."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from serving.storage.views import ReceiptHead, ReceiptReader, StoredReceipt
from tally.events.identity import REVERSAL, event_id


@dataclass(frozen=True)
class Raw:
    """A row of raw_pos_transaction_byday."""

    store_id: str
    till_id: str
    number: str
    happened_at: datetime
    stored: StoredReceipt

    @property
    def key(self) -> tuple[str, datetime, str, str, str]:
        return (self.store_id, self.happened_at, self.till_id, self.number, self.stored.event_id)

    @property
    def head(self) -> ReceiptHead:
        return ReceiptHead(self.stored.event_id, self.stored.offset, self.happened_at)

    @property
    def row(self) -> dict[str, Any]:
        """As the receipts' writer has it."""
        return {
            "year_day": self.happened_at.date().isoformat(),
            "operation_id": self.store_id,
            "happened_at": self.happened_at,
            "vendor_fiscal_module": self.till_id,
            "transaction_id": self.number,
            "numbering_epoch": "0",
            "transactions": [*self.stored.lines],
            "kind": self.stored.kind,
            "currency": self.stored.currency,
            "event_id": self.stored.event_id,
            "source_partition": 0,
            "source_offset": self.stored.offset,
        }


def line(item: str, total: int, amount: int = 1, **more: Any) -> dict[str, Any]:
    """A line of so many units and cents; its id is its name unless `item_id` says another."""
    named = {"item": item, "item_id": item, "price": "1.00"}
    return {**named, "amount_milli": 1000 * amount, "total_minor": total, **more}


def raw(
    store: str, closed: str | datetime, number: int, *lines: dict[str, Any], **more: Any
) -> Raw:
    """A receipt of till 1; `voids` is the number that it takes back, `rule` why it adds nothing."""
    at = datetime.fromisoformat(closed).replace(tzinfo=UTC) if isinstance(closed, str) else closed
    voids, rule = more.get("voids"), more.get("rule")
    taken = number if voids is None else voids
    identity = event_id("pos", store, "1", "0", str(taken), *([rule] if rule else []))
    stored = StoredReceipt(
        identity if voids is None else f"{REVERSAL}{identity}",
        more.get("offset", number),
        more.get("kind", "sale" if voids is None else "void"),
        more.get("currency", "USD"),
        [msgspec.json.encode(one).decode() for one in lines],
    )
    return Raw(store, "1", str(number), at, stored)


class MemoryReceipts(ReceiptReader):
    """A reader over rows; of each key the first by offset, as the table has it."""

    def __init__(self, rows: list[Raw], check: Callable[[], Awaitable[None]]) -> None:
        self._rows, self._check = rows, check

    async def heads(
        self, store_id: str, day: date, span: tuple[datetime, datetime], most: int
    ) -> list[ReceiptHead]:
        await self._check()
        start, end = span
        found = [one.head for one in self._of(store_id, day) if start <= one.happened_at < end]
        return found[:most]

    async def voids(self, store_id: str, day: date, most: int) -> list[ReceiptHead]:
        await self._check()
        found = [one.head for one in self._of(store_id, day) if one.stored.kind == "void"]
        return found[:most]

    async def receipts(self, store_id: str, first: datetime, last: datetime) -> list[StoredReceipt]:
        await self._check()
        of_day = self._of(store_id, first.date())
        return [one.stored for one in of_day if first <= one.happened_at <= last]

    def _of(self, store_id: str, day: date) -> Iterator[Raw]:
        by_key: dict[object, Raw] = {}
        for one in self._rows:
            if one.store_id == store_id and one.happened_at.date() == day:
                known = by_key.setdefault(one.key, one)
                if one.stored.offset < known.stored.offset:
                    by_key[one.key] = one
        return iter(by_key.values())
