"""Reads what a store's stock is computed from: the last counts, and what was sold since."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from serving.cells.dimensions import MAX_VALUES
from serving.merge.reading import Pointers, StoreDays, read_pointers, read_store
from serving.merge.served import FamilyReading, serve_windows
from serving.metrics.formulas import StockAt, StockBaseline
from serving.questions.question import StoreSlots
from serving.stock.items import ItemReader
from serving.stock.stock import SalesMoves
from serving.storage.views import ViewReader
from tally.algebra.shelf import has_count
from tally.config.settings import Settings
from tally.errors import BadQuery
from tally.events.identity import partition_number
from tally.families.family import Family
from tally.time.windows import ONE_DAY, last_utc_day

# The search for a count goes back in steps of so many days: most articles are counted often, and
# counts of a year ago are still found within one question.
STEPS = (8, 24, 64, 128, 177)
# The days before that of the question, which is itself the first of the steps.
COUNT_DAYS = sum(STEPS) - 1
ReadPointers = Callable[[Family, Sequence[date]], Awaitable[Pointers]]


@dataclass
class _ArticleSearch:
    """The last counts of a store's articles before an instant, as far as they are found."""

    request: StoreSlots
    articles: set[str]
    counts: dict[str, datetime] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether a count of each article is found."""
        return self.articles <= self.counts.keys()

    def add(self, stock: StockAt, reading: FamilyReading, before: datetime) -> None:
        """Add the counts of some days, which lie before the days that were looked at so far."""
        starts = sorted(start for start in {*reading.batch, *reading.speed} if start < before)
        found: dict[str, datetime] = {}
        for start, window in zip(starts, serve_windows(reading, starts), strict=True):
            for (article, *_), parts in (window.merged.values or {}).items():
                self.articles.add(article)
                if has_count(parts[stock.part]):
                    found[article] = start
        self.counts = found | self.counts


class StockReader:
    """Reads what a stock is computed from, apart from the windows of its stretches.

    `pointers` returns the generations that serve; by default those at the moment of the read.
    """

    def __init__(
        self,
        views: ViewReader,
        settings: Settings,
        items: ItemReader,
        pointers: ReadPointers | None = None,
    ) -> None:
        self._views, self._settings, self._items = views, settings, items
        # An evaluator judges by the generations of one moment, even if others serve by now.
        self._pointers = pointers or self._read_pointers_now

    async def with_baselines(
        self, stock: StockAt, stores: Sequence[StoreSlots], as_of: datetime | None
    ) -> list[StoreSlots]:
        """The stores, each with since when its articles are counted.

        Raises ViewsUnreachable; BadQuery for an instant in the past, for which no receipts are
        kept.
        """
        if as_of is not None:
            detail = "as_of: a stock is reckoned from the receipts as they are now; leave it out"
            raise BadQuery("as_of", detail)
        by_start: dict[datetime, list[StoreSlots]] = defaultdict(list)
        for store in stores:
            by_start[store.slots[0].start].append(store)
        found: dict[str, StockBaseline] = {}
        for start, stores_then in by_start.items():
            found |= await self._find_baselines(stock, stores_then, start)
        return [replace(store, stock_baseline=found[store.store_id]) for store in stores]

    async def read_sales(
        self, asked: StoreSlots, readings: Sequence[FamilyReading]
    ) -> SalesMoves | None:
        """The sales in the span of the store; None unless the question is for its stock.

        Raises ViewsUnreachable; BadQuery for more receipts than one question may read.
        """
        if asked.stock_baseline is None:
            return None
        stock = asked.stock_baseline.stock
        # The register of articles may lag behind the rows.
        (documents,) = (reading for reading in readings if reading.family is stock.family)
        states = (*documents.batch.values(), *documents.speed.values())
        seen = {axes[0] for state in states for axes in state.values}
        moves = SalesMoves(stock, asked.stock_baseline.articles | seen)
        await self._items.read(asked.store_id, [asked.span], [moves])
        return moves

    async def _find_baselines(
        self, stock: StockAt, stores: Sequence[StoreSlots], start: datetime
    ) -> dict[str, StockBaseline]:
        """The counts by store; the questions of all these stores begin at the same instant."""
        searches = await self._searches(stock, stores, start)
        for days in _spans(start):
            unfinished = [search for search in searches if not search.is_over]
            if not unfinished:
                break
            # Once for all stores, so that all of them are of one moment.
            pointers = await self._pointers(stock.family, days)
            for search, reading in zip(
                unfinished,
                await asyncio.gather(
                    *(self._read(pointers, search, days) for search in unfinished)
                ),
                strict=True,
            ):
                search.add(stock, reading, start)
        return {
            search.request.store_id: StockBaseline(
                stock, min(search.counts.values(), default=start), frozenset(search.articles)
            )
            for search in searches
        }

    async def _read_pointers_now(self, family: Family, days: Sequence[date]) -> Pointers:
        patience = self._settings.final_patience_seconds
        return await read_pointers(self._views, family, days, patience)

    async def _searches(
        self, stock: StockAt, stores: Sequence[StoreSlots], start: datetime
    ) -> list[_ArticleSearch]:
        first = (start - COUNT_DAYS * ONE_DAY).date()
        ends = {store.store_id: store.slots[-1].end for store in stores}
        days = {store_id: (first, last_utc_day(end)) for store_id, end in ends.items()}
        (axis,) = stock.family.axes
        noted = await self._views.axis_values(stock.family, axis, days, MAX_VALUES)
        articles = {store_id: {*values} for store_id, values in noted.items()}
        return [_ArticleSearch(store, articles.get(store.store_id, set())) for store in stores]

    async def _read(
        self, pointers: Pointers, search: _ArticleSearch, days: Sequence[date]
    ) -> FamilyReading:
        store_id = search.request.store_id
        partition = partition_number(store_id, self._settings.partitions)
        return await read_store(self._views, pointers, StoreDays(store_id, partition, days))


def _spans(before: datetime) -> Iterator[list[date]]:
    """Spans of UTC days where a count before the instant may lie, latest first; each ascends."""
    last = last_utc_day(before)
    for length in STEPS:
        yield [last - back * ONE_DAY for back in reversed(range(length))]
        last -= length * ONE_DAY
