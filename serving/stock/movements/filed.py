"""Receipts that came longer ago than copies are remembered, looked up where receipts are filed."""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import structlog

from serving.merge.receipts import ReceiptHead, ReceiptReader, StoredReceipt
from serving.stock.movements.records import filed_moves
from tally.errors import Aborted, ViewsUnreachable
from tally.instants import instant_text, parse_instant
from tally.receipt_chain import read_place
from tally.stock.seen import FiledEvents, SeenEvent, StockEvent

# What came within that time is remembered without being looked up, so that an older answer is as
# good: a day that is sent again is read once.
_KNOWN_SECONDS = 3_600.0
_MOST_DAYS = 64
# Of a store's day; more than a hypermarket has.
_MOST_RECEIPTS = 1_000_000
# So long it waits after it could not read, before all comes again.
_AGAIN_SECONDS = 1.0
_DAY = timedelta(days=1)

log = structlog.get_logger()


class _FiledDay(NamedTuple):
    """Receipts of a store and UTC day by their chain, and until when they are taken for true."""

    chains: dict[str, list[ReceiptHead]]
    until: float


class FiledReceipts:
    """The receipts of `raw_pos_transaction_byday`; `now`: seconds on a clock of its own.

    `wait` waits for so many seconds (tests).
    """

    def __init__(
        self,
        receipts: ReceiptReader,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._receipts, self._now, self._wait = receipts, now, wait
        self._runner = asyncio.Runner()
        self._days: OrderedDict[tuple[str, date], _FiledDay] = OrderedDict()

    def before(self, event: StockEvent, offset: int, at: int) -> FiledEvents:
        """The first copies of all events of its receipt that were filed from a lower offset.

        By identity; of one UTC day, which is that of the event. `at`: what is remembered as their
        arrival (ms since 1970, UTC).
        Raises Aborted when they cannot be read now, BadInstant for an event without an instant.
        """
        try:
            return self._runner.run(self._before(event, offset, at))
        except ViewsUnreachable as error:
            reason = str(error.__cause__ or error)
            log.warning("old receipts not read, nothing is moved meanwhile", reason=reason)
            self._wait(_AGAIN_SECONDS)
            raise Aborted("old receipts cannot be read; nothing is moved meanwhile") from error

    def close(self) -> None:
        """Ends what it has begun."""
        self._runner.close()

    async def _before(self, event: StockEvent, offset: int, at: int) -> FiledEvents:
        closed_at = parse_instant(event.happened_at, "happened_at")
        day = await self._of_day(event.store_id, closed_at.astimezone(UTC).date())
        heads = day.chains.get(read_place(event.event_id).chain, [])
        found = []
        for head in heads:
            if head.offset < offset:
                for stored in await self._stored(event.store_id, head):
                    found.append((stored.event_id, _seen(stored, head.happened_at, at)))
        return found

    async def _of_day(self, store_id: str, day: date) -> _FiledDay:
        key = store_id, day
        known = self._days.pop(key, None)
        if known is None or known.until <= self._now():
            start = datetime(day.year, day.month, day.day, tzinfo=UTC)
            span = start, start + _DAY
            heads = await self._receipts.heads(store_id, day, span, _MOST_RECEIPTS)
            known = _FiledDay(_by_chain(heads), self._now() + _KNOWN_SECONDS)
        # The last that was asked for is the last to be forgotten.
        self._days[key] = known
        if len(self._days) > _MOST_DAYS:
            self._days.popitem(last=False)
        return known

    async def _stored(self, store_id: str, head: ReceiptHead) -> list[StoredReceipt]:
        of_instant = await self._receipts.receipts(store_id, head.happened_at, head.happened_at)
        return [one for one in of_instant if (one.event_id, one.offset) == head[:2]]


def _by_chain(heads: Sequence[ReceiptHead]) -> dict[str, list[ReceiptHead]]:
    chains: dict[str, list[ReceiptHead]] = defaultdict(list)
    for head in heads:
        chains[read_place(head.event_id).chain].append(head)
    return dict(chains)


def _seen(stored: StoredReceipt, closed_at: datetime, at: int) -> SeenEvent:
    place = read_place(stored.event_id)
    adds = not place.is_void and not place.is_ending
    return SeenEvent(
        offset=stored.offset,
        fingerprint="",
        at=at,
        happened_at=instant_text(closed_at),
        moves=filed_moves(stored.kind, stored.lines) if adds else (),
    )
