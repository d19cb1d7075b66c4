"""What there is of a store's articles in each window of a local day, as rules of kind stock judge
it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import structlog

from serving.alerts.evaluator.calendar import WindowSpan, millis_of
from serving.merge.reading import Pointers, StoreDays, read_store
from serving.merge.served import FamilyReading, ServedWindow, serve_windows
from serving.merge.views import ViewReader
from serving.query.catalogue import Metric
from serving.query.items import ItemReader
from serving.query.question import StoreSlots, days_of
from serving.query.stock import ShelfStretch, shelf_stretches
from serving.query.stock_reading import StockReader
from tally.alerts.ids import subject_text
from tally.algebra.merge import MergedWindow
from tally.algebra.shelf import Reached
from tally.errors import BadQuery
from tally.families import Family
from tally.generation import Generation
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import window_starts

# Of a store and day, that are looked at for what has run out; by their ids the first of them.
MOST_ARTICLES = 500
_NEVER = 1 << 62
# By subject, as ids of alerts have it.
Shelves = Mapping[str, Reached]
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
    """The windows of a day; `shelves`: what there was in each of them."""

    stretches: Sequence[ShelfStretch]
    shelves: Sequence[Shelves]
    readings: Sequence[FamilyReading]
    reach: tuple[ShelfReach, ...]


class StockViews:
    """Reads stocks by the generations of one moment. Raises ViewsUnreachable."""

    def __init__(self, views: ViewReader, settings: Settings, published: PublishedOf) -> None:
        self._views, self._settings, self._published = views, settings, published
        self._reader = StockReader(views, settings, ItemReader(views), self._pointers)

    async def read(self, metric: Metric, slots: StoreSlots) -> StockDay | None:
        """The quarter hours of the slots; None where they hang on more than may be read."""
        assert metric.stock is not None
        try:
            [asked] = await self._reader.with_counts(metric.stock, [slots], None)
            readings = await asyncio.gather(*(self._rows(one, asked) for one in metric.families))
            sold = await self._reader.sold(asked, readings)
        except BadQuery as error:
            log.warning("stock is not judged", store=slots.store_id, reason=str(error))
            return None
        assert sold is not None
        # From the last counts on, and not from the begin of the day.
        starts = window_starts(*asked.span)
        served = [serve_windows(one, starts) for one in readings]
        windows = zip(*(map(_as_read, one) for one in served), strict=True)
        stretches = [*shelf_stretches(asked, windows, sold)]
        return StockDay(
            stretches,
            _shelves(asked.store_id, stretches),
            readings,
            tuple(_reach(*one, starts) for one in zip(readings, served, strict=True)),
        )

    async def _rows(self, family: Family, asked: StoreSlots) -> FamilyReading:
        days = days_of(asked)
        partition = partition_of(asked.store_id, self._settings.partitions)
        pointers = await self._pointers(family, days)
        return await read_store(self._views, pointers, StoreDays(asked.store_id, partition, days))

    async def _pointers(self, family: Family, days: Sequence[date]) -> Pointers:
        return Pointers(family, await self._published(family.name, days), {}, {})


def first_shelves(shelves: Shelves) -> Iterator[tuple[str, Reached]]:
    """Those that may call for an alert. Who has one is judged all the same."""
    return islice(shelves.items(), MOST_ARTICLES)


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


def _shelves(store_id: str, stretches: Sequence[ShelfStretch]) -> list[Shelves]:
    # By the last of them: an article that comes is there from then on.
    articles = sorted(stretches[-1].reached)
    if len(articles) > MOST_ARTICLES:
        day = stretches[-1].cell.slot.start.date()
        _say_left_out(store_id, day, len(articles) - MOST_ARTICLES)
    named = [(article, subject_text("item", article)) for article in articles]
    return [
        {subject: one.reached[article] for article, subject in named if article in one.reached}
        for one in stretches
    ]


# Once for each day and number: a day is judged hundreds of times.
@lru_cache(maxsize=10_000)
def _say_left_out(store_id: str, day: date, articles: int) -> None:
    log.warning("articles are not judged", store=store_id, day=f"{day}", articles=articles)
