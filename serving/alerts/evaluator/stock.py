"""What there is of a store's articles in each window of a local day, as rules of kind stock judge
it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from typing import NamedTuple

import structlog

from serving.alerts.evaluator.calendar import WindowSpan, millis_of
from serving.alerts.evaluator.shelves import DayShelves
from serving.merge.reading import Pointers, StoreDays, read_store
from serving.merge.served import FamilyReading, ServedWindow, serve_windows
from serving.merge.views import ViewReader
from serving.query import items
from serving.query.catalogue import Metric
from serving.query.items import ItemReader
from serving.query.question import StoreSlots, days_of
from serving.query.stock import ShelfMoves, SoldMoves, shelf_moves
from serving.query.stock_reading import StockReader
from tally.algebra.merge import MergedWindow
from tally.errors import BadQuery
from tally.families import Family
from tally.generation import Generation
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import window_starts

_NEVER = 1 << 62
PublishedOf = Callable[[str, Sequence[date]], Awaitable[dict[date, Generation]]]

log = structlog.get_logger()


# No tuple: one of a metric and a family of one name would be the same.
@dataclass(frozen=True)
class StockWindowsOf:
    """Windows of one local day of a store, in all that a stock is made of."""

    metric: str
    store_id: str
    span: WindowSpan


class ShelfReach(NamedTuple):
    """Which rows of the speed layer a level hangs on: from that window on (ms since 1970, UTC).

    `epoch`: the highest of the generations that serve the days since the last counts.
    """

    family: str
    start: int
    epoch: int


class StockDay(NamedTuple):
    """The windows of a day; `shelves`: what there was in them."""

    stretches: Sequence[ShelfMoves]
    shelves: DayShelves
    readings: Sequence[FamilyReading]
    reach: tuple[ShelfReach, ...]


class _SoldSince(NamedTuple):
    """The store as it is read, from the last counts on or later, and what was sold since."""

    asked: StoreSlots
    moves: SoldMoves


class StockViews:
    """Reads stocks by the generations of one moment. Raises ViewsUnreachable."""

    def __init__(self, views: ViewReader, settings: Settings, published: PublishedOf) -> None:
        self._views, self._settings, self._published = views, settings, published
        self._reader = StockReader(views, settings, ItemReader(views), self._pointers)

    async def read(self, metric: Metric, slots: StoreSlots) -> StockDay | None:
        """The quarter hours of the slots; None where a day alone is more than may be read.

        Where it is too much since the last counts, articles that were counted that long ago are
        unknown until they are counted again, and the others are not.
        """
        assert metric.stock is not None
        [asked] = await self._reader.with_counts(metric.stock, [slots], None)
        readings = await asyncio.gather(*(self._rows(one, asked) for one in metric.families))
        # From the last counts on, and not from the begin of the day.
        starts = window_starts(*asked.span)
        served = [serve_windows(one, starts) for one in readings]
        receipts = dict(zip(starts, served[-1], strict=True))
        sold = await self._sold(asked, readings, receipts)
        if sold is None:
            return None
        left_out = len(starts) - len(window_starts(*sold.asked.span))
        starts, served = starts[left_out:], [one[left_out:] for one in served]
        windows = zip(*(map(_as_read, one) for one in served), strict=True)
        stretches = [*shelf_moves(sold.asked, windows, sold.moves)]
        shelves = DayShelves([one.moved for one in stretches], is_partial=left_out > 0)
        _say_partial(shelves, slots)
        return StockDay(
            stretches,
            shelves,
            readings,
            tuple(_reach(*one, starts) for one in zip(readings, served, strict=True)),
        )

    async def _sold(
        self,
        asked: StoreSlots,
        readings: Sequence[FamilyReading],
        receipts: Mapping[datetime, ServedWindow],
    ) -> _SoldSince | None:
        """What was sold since the last counts, or since as long ago as may be read; None where a
        day alone is too much."""
        most = items.MOST_RECEIPTS
        while True:
            part = _since_affordable(asked, receipts, most)
            try:
                moves = await self._reader.sold(part, readings)
            except BadQuery as error:
                if part.span.start == asked.slots[0].start or not most:
                    log.warning("stock is not judged", store=asked.store_id, reason=str(error))
                    return None
                # Receipts of many lines, or more of them than a view has counted so far.
                most //= 2
            else:
                assert moves is not None
                return _SoldSince(part, moves)

    async def _rows(self, family: Family, asked: StoreSlots) -> FamilyReading:
        days = days_of(asked)
        partition = partition_of(asked.store_id, self._settings.partitions)
        pointers = await self._pointers(family, days)
        return await read_store(self._views, pointers, StoreDays(asked.store_id, partition, days))

    async def _pointers(self, family: Family, days: Sequence[date]) -> Pointers:
        return Pointers(family, await self._published(family.name, days), {}, {})


def _since_affordable(
    asked: StoreSlots, receipts: Mapping[datetime, ServedWindow], most: int
) -> StoreSlots:
    """The same from the earliest window on since which a view has counted at most so many; the day
    itself whole. `receipts`: by start each window that is read."""
    assert asked.counted is not None
    since = first = asked.slots[0].start
    left = most
    for start in sorted(receipts, reverse=True):
        left -= receipts[start].merged.events or 0
        if left < 0 and start < first:
            return replace(asked, counted=replace(asked.counted, since=since))
        since = min(since, start)
    return asked


def _as_read(one: ServedWindow) -> ServedWindow:
    """A window of which nothing has come as one in which nothing was.

    Whether all had come that there was is for the tick to say, and for the generations.
    """
    if one.merged.values is not None:
        return one
    return ServedWindow(MergedWindow("speed", 0, {}), "provisional", complete=False)


def _reach(
    reading: FamilyReading, served: Sequence[ServedWindow], starts: Sequence[datetime]
) -> ShelfReach:
    pairs = zip(starts, served, strict=True)
    by_speed = (millis_of(start) for start, one in pairs if one.merged.source != "batch")
    epochs = (one.epoch for one in reading.published.values())
    start, epoch = min(by_speed, default=_NEVER), max(epochs, default=0)
    return ShelfReach(reading.family.name, start, epoch)


def _say_partial(shelves: DayShelves, slots: StoreSlots) -> None:
    if shelves.is_partial:
        day = slots.slots[0].start.date()
        _say_unknown(slots.store_id, day, sum(1 for _ in shelves.unknown()))


# Once for each day and number: a day is judged hundreds of times.
@lru_cache(maxsize=10_000)
def _say_unknown(store_id: str, day: date, articles: int) -> None:
    log.warning(
        "articles are not judged: too many receipts since they were counted; count them",
        store=store_id,
        day=f"{day}",
        articles=articles,
    )
