"""The stock of a store's articles in each window of a local day, for rules of kind stock."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from typing import NamedTuple

import structlog

from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.shelves import DayShelves, StockSpeedRows
from serving.engine.store_reader import StoreReader
from serving.merge.served import FamilyReading, ServedWindow, serve_windows
from serving.metrics.catalogue import Metric
from serving.questions.question import StoreSlots
from serving.stock import items
from serving.stock.items import ItemReader
from serving.stock.stock import SalesMoves, ShelfMoves, shelf_moves
from serving.stock.stock_reading import ReadPointers, StockReader
from serving.storage.views import ViewReader
from tally.algebra.merge import MergedWindow
from tally.config.settings import Settings
from tally.errors import BadQuery
from tally.families.family import Family
from tally.time.instants import to_millis
from tally.time.windows import window_starts

_NEVER = 1 << 62

log = structlog.get_logger()


# Not a tuple: the key of a metric would equal that of a family with the same name.
@dataclass(frozen=True)
class StockDayRequest:
    """Windows of one local day of a store, in all families that a stock is made of."""

    metric: str
    store_id: str
    span: WindowSpan


class StockDay(NamedTuple):
    """The windows of a day; `shelves`: the stock in them."""

    windows: Sequence[ShelfMoves]
    shelves: DayShelves
    readings: Sequence[FamilyReading]
    speed_rows: tuple[StockSpeedRows, ...]


class _SalesSince(NamedTuple):
    """The slots that are read, from the last counts on or later, and the sales since then."""

    slots: StoreSlots
    moves: SalesMoves


class StockDayReader:
    """Reads stocks by the generations of one snapshot.

    Raises ViewsUnreachable when a read fails.
    """

    def __init__(
        self, views: ViewReader, settings: Settings, reader: StoreReader, pointers: ReadPointers
    ) -> None:
        self._reader, self._pointers = reader, pointers
        self._stock_reader = StockReader(views, settings, ItemReader(views), pointers)

    async def read(self, metric: Metric, slots: StoreSlots) -> StockDay | None:
        """The quarter hours of the slots; None where a single day is more than may be read.

        If there are too many receipts since the last counts, only later ones are read: articles
        that were counted before are then unknown until they are counted again.
        """
        assert metric.stock is not None
        [counted] = await self._stock_reader.with_baselines(metric.stock, [slots], None)
        readings = await asyncio.gather(
            *(self._read_family(part, counted) for part in metric.families)
        )
        # From the last counts on, and not from the start of the day.
        starts = window_starts(*counted.span)
        served = [serve_windows(reading, starts) for reading in readings]
        receipts = dict(zip(starts, served[-1], strict=True))
        sold = await self._sales_since(counted, readings, receipts)
        if sold is None:
            return None
        left_out = len(starts) - len(window_starts(*sold.slots.span))
        starts, served = starts[left_out:], [part[left_out:] for part in served]
        windows = zip(*(map(_empty_if_missing, part) for part in served), strict=True)
        shelf_windows = [*shelf_moves(sold.slots, windows, sold.moves)]
        shelves = DayShelves([moves.moved for moves in shelf_windows], is_partial=left_out > 0)
        _warn_partial(shelves, slots)
        return StockDay(
            shelf_windows,
            shelves,
            readings,
            tuple(_speed_rows(*pair, starts) for pair in zip(readings, served, strict=True)),
        )

    async def _sales_since(
        self,
        slots: StoreSlots,
        readings: Sequence[FamilyReading],
        receipts: Mapping[datetime, ServedWindow],
    ) -> _SalesSince | None:
        """The sales since the last counts, or a later start if those are too many to read.

        None where a single day is too much.
        """
        most = items.MAX_RECEIPTS
        while True:
            part = _cut_to_limit(slots, receipts, most)
            try:
                moves = await self._stock_reader.read_sales(part, readings)
            except BadQuery as error:
                if part.span.start == slots.slots[0].start or not most:
                    log.warning("stock is not judged", store=slots.store_id, reason=str(error))
                    return None
                # Receipts have many lines, or there are more than a view has counted so far.
                most //= 2
            else:
                assert moves is not None
                return _SalesSince(part, moves)

    async def _read_family(self, family: Family, slots: StoreSlots) -> FamilyReading:
        pointers = await self._pointers(family, self._reader.utc_days([family], slots))
        return await self._reader.read_family(pointers, slots)


def _cut_to_limit(
    slots: StoreSlots, receipts: Mapping[datetime, ServedWindow], most: int
) -> StoreSlots:
    """The slots from the earliest window since which a view has counted at most `most` receipts.

    The day itself always stays whole. `receipts`: each window that is read, by its start.
    """
    assert slots.stock_baseline is not None
    since = first = slots.slots[0].start
    left = most
    for start in sorted(receipts, reverse=True):
        left -= receipts[start].merged.events or 0
        if left < 0 and start < first:
            return replace(slots, stock_baseline=replace(slots.stock_baseline, since=since))
        since = min(since, start)
    return slots


def _empty_if_missing(window: ServedWindow) -> ServedWindow:
    """The window, or an empty one if none of its data has arrived.

    Ticks and generations say whether all data of the window had arrived.
    """
    if window.merged.values is not None:
        return window
    return ServedWindow(MergedWindow("speed", 0, {}), "provisional")


def _speed_rows(
    reading: FamilyReading, served: Sequence[ServedWindow], starts: Sequence[datetime]
) -> StockSpeedRows:
    pairs = zip(starts, served, strict=True)
    by_speed = (to_millis(start) for start, window in pairs if window.merged.source != "batch")
    epochs = (generation.epoch for generation in reading.published.values())
    start, epoch = min(by_speed, default=_NEVER), max(epochs, default=0)
    return StockSpeedRows(reading.family.name, start, epoch)


def _warn_partial(shelves: DayShelves, slots: StoreSlots) -> None:
    if shelves.is_partial:
        day = slots.slots[0].start.date()
        _warn_unknown(slots.store_id, day, sum(1 for _ in shelves.unknown_subjects()))


# Cached to log once for each day and number: a day is evaluated hundreds of times.
@lru_cache(maxsize=10_000)
def _warn_unknown(store_id: str, day: date, articles: int) -> None:
    log.warning(
        "articles are not judged: too many receipts since they were counted; count them",
        store=store_id,
        day=f"{day}",
        articles=articles,
    )
