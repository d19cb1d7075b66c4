"""Looks up receipts that are older than the memory of copies, in the table of filed receipts."""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import NamedTuple

import structlog

from inventory.movements.deduplication import FiledEvents, StockEvent, StoredEvent
from inventory.movements.records import receipt_moves
from serving.storage.views import ReceiptHead, ReceiptReader, StoredReceipt
from tally.errors import TransactionAborted, ViewsUnreachable
from tally.events.receipt_rules import parse_chain_position
from tally.time.instants import format_utc, parse_instant
from tally.time.windows import day_end, day_start

# Receipts that arrive within this time are remembered without a look-up, so an answer of this age
# is as good as a new one: a day that is sent again is read once.
_CACHE_SECONDS = 3_600.0
_MAX_DAYS = 64
# The most receipts of a store and day; more than a hypermarket has.
_MAX_RECEIPTS = 1_000_000
# The pause after a failed read, before the whole batch is processed again.
_RETRY_SECONDS = 1.0

log = structlog.get_logger()


class _ReceiptDay(NamedTuple):
    """Receipts of a store and UTC day, by chain, valid `until` (seconds of the clock)."""

    chains: dict[str, list[ReceiptHead]]
    until: float


class StoredReceiptLookup:
    """The table of raw receipts; `now` is monotonic, `wait` sleeps (both in seconds)."""

    def __init__(
        self,
        receipts: ReceiptReader,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._receipts, self._now, self._wait = receipts, now, wait
        self._runner = asyncio.Runner()
        self._days: OrderedDict[tuple[str, date], _ReceiptDay] = OrderedDict()

    def find_earlier(self, event: StockEvent, offset: int, at: int) -> FiledEvents:
        """The first copies of all events of its receipt that were filed from a lower offset.

        They are given by identity, and all are of the event's UTC day. `at`: the instant that is
        remembered as their arrival (ms since 1970, UTC).
        Raises TransactionAborted when they cannot be read now, BadInstant without an instant.
        """
        try:
            return self._runner.run(self._first_copies(event, offset, at))
        except ViewsUnreachable as error:
            reason = str(error.__cause__ or error)
            log.warning("old receipts not read, nothing is moved meanwhile", reason=reason)
            self._wait(_RETRY_SECONDS)
            text = "old receipts cannot be read; nothing is moved meanwhile"
            raise TransactionAborted(text) from error

    def close(self) -> None:
        """Close the event loop."""
        self._runner.close()

    async def _first_copies(self, event: StockEvent, offset: int, at: int) -> FiledEvents:
        closed_at = parse_instant(event.happened_at, "happened_at")
        day = await self._read_day(event.store_id, closed_at.astimezone(UTC).date())
        heads = day.chains.get(parse_chain_position(event.event_id).chain, [])
        found = []
        for head in heads:
            if head.offset < offset:
                for stored in await self._read_copies(event.store_id, head):
                    found.append((stored.event_id, _to_stored_event(stored, head.happened_at, at)))
        return found

    async def _read_day(self, store_id: str, day: date) -> _ReceiptDay:
        key = store_id, day
        known = self._days.pop(key, None)
        if known is None or known.until <= self._now():
            span = day_start(day), day_end(day)
            heads = await self._receipts.heads(store_id, day, span, _MAX_RECEIPTS)
            chains: dict[str, list[ReceiptHead]] = defaultdict(list)
            for head in heads:
                chains[parse_chain_position(head.event_id).chain].append(head)
            known = _ReceiptDay(dict(chains), self._now() + _CACHE_SECONDS)
        # The day that was used last is evicted last.
        self._days[key] = known
        if len(self._days) > _MAX_DAYS:
            self._days.popitem(last=False)
        return known

    async def _read_copies(self, store_id: str, head: ReceiptHead) -> list[StoredReceipt]:
        receipts = await self._receipts.receipts(store_id, head.happened_at, head.happened_at)
        return [stored for stored in receipts if (stored.event_id, stored.offset) == head[:2]]


def _to_stored_event(stored: StoredReceipt, closed_at: datetime, at: int) -> StoredEvent:
    place = parse_chain_position(stored.event_id)
    adds = not place.is_void and not place.is_cancellation
    return StoredEvent(
        offset=stored.offset,
        fingerprint="",
        at=at,
        happened_at=format_utc(closed_at),
        moves=receipt_moves(stored.kind, stored.lines) if adds else (),
    )
