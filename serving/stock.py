"""The stock of a store's articles: the last count, plus later documents, less what was sold.

Counts and documents are the rows of a family. No view holds the sales of an article, so these are
read from the receipts. A view has the sums of the receipts, and each window is checked against it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import NamedTuple

from runtime.registry.receipt_lines import load_adding_rules, parse_lines
from serving.cells.cells import Cell, FamilyWindows
from serving.items import ItemReader, counting_receipts
from serving.merge.reading import Pointers, StoreDays, read_pointers, read_store
from serving.merge.served import FamilyReading, ServedWindow, serve_windows
from serving.questions.catalogue import StockAt, StockBaseline
from serving.questions.question import MAX_VALUES, StoreSlots
from serving.storage.views import ReceiptHead, StoredReceipt, ViewReader
from tally.algebra.level import Level, StockLevels, WindowStock, has_count
from tally.algebra.merge import Axes, MergedWindow, Parts
from tally.algebra.parts import Value
from tally.config.settings import Settings
from tally.errors import BadQuery
from tally.events.identity import partition_number
from tally.events.receipt_rules import LineFacts
from tally.families.family import Family
from tally.time.windows import EPOCH, ONE_DAY, WINDOW, last_utc_day, window_start

_LEVEL = Level("stock")
_MILLI = timedelta(milliseconds=1)
_Article = str
# Instants in milliseconds since 1970, and the change of the level at each.
_Moves = tuple[list[int], list[int]]
_LevelMoves = dict[_Article, Value]


@dataclass
class SalesMoves:
    """The units that receipts took from articles, by window start (UTC).

    `units` (thousandths) and `event_ids` are those of the receipts of all articles.
    """

    stock: StockAt
    articles: frozenset[_Article]
    lines: int = 0
    event_ids: dict[datetime, set[str]] = field(default_factory=lambda: defaultdict(set))
    units: Counter[datetime] = field(default_factory=Counter)
    moves: dict[datetime, dict[_Article, _Moves]] = field(default_factory=dict)

    def add_heads(self, heads: Sequence[ReceiptHead]) -> None:
        """Take all heads, also of receipts that do not count: a view has them among its events."""
        for head in heads:
            self.event_ids[window_start(head.happened_at)].add(head.event_id)

    def add(self, receipts: Iterable[StoredReceipt], counting: Mapping[str, ReceiptHead]) -> None:
        """Add those of the receipts that count."""
        for receipt, head in counting_receipts(receipts, counting):
            self._add(receipt, head.happened_at)

    def _add(self, receipt: StoredReceipt, closed_at: datetime) -> None:
        lines: dict[_Article, list[LineFacts]] = defaultdict(list)
        self.lines += len(receipt.lines)
        for line in parse_lines(receipt.lines):
            lines[line.item_id].append(line.facts)
        start = window_start(closed_at)
        for article, facts in lines.items():
            units = self.stock.sales.raw_total(load_adding_rules().sum_parts(receipt.kind, facts))
            self.units[start] += units
            if units and article in self.articles:
                of_window = self.moves.setdefault(start, {})
                at, brought = of_window.setdefault(article, ([], []))
                # Rounded down, so that a sale stays within its window.
                at.append((closed_at - EPOCH) // _MILLI)
                brought.append(Level.encode_movement(-units))

    def has_missing_receipts(self, start: datetime, served: MergedWindow) -> bool:
        """Whether the view has counted receipts of the window that are not among these."""
        return len(self.event_ids.get(start, ())) < (served.events or 0)

    def agrees(self, start: datetime, served: MergedWindow) -> bool:
        """Whether the view has counted exactly these receipts of the window, and these units."""
        values, count = served.values or {}, len(self.event_ids.get(start, ()))
        units = sum(self.stock.sales.raw_total(parts) for parts in values.values())
        return count == served.events and self.units[start] == units


class ShelfMoves(NamedTuple):
    """A stretch, and by article the stock at its end and the least in it: thousandths, or None.

    `moved` holds all articles in the first stretch, and in any other those that moved in it or
    whose stock became unknown; the rest keep the stock at the end of the stretch before.
    `agrees` is true if up to its end the receipts are exactly those that the views have counted.
    """

    cell: Cell
    moved: Mapping[_Article, WindowStock]
    agrees: bool


def stock_cells(
    asked: StoreSlots, windows: Iterable[FamilyWindows], sold: SalesMoves
) -> list[Cell]:
    """A cell for each stretch, whose rows are the stock by article: thousandths, or None.

    The windows ascend and fill asked.span: one of documents and one of receipts each.
    """
    walk = _StockState(sold, StockLevels(dict.fromkeys(sold.articles)))
    cells = _cells(asked, windows, walk)
    return [_with_rows(cell, walk.shelf.current_stock(), sold.stock) for cell in cells]


def shelf_moves(
    asked: StoreSlots, windows: Iterable[FamilyWindows], sold: SalesMoves
) -> Iterator[ShelfMoves]:
    """The moves in each stretch; the windows are as in stock_cells()."""
    # The cost grows with articles plus moves, and not with articles times stretches.
    walk = _StockState(sold, StockLevels(dict.fromkeys(sold.articles)))
    for number, cell in enumerate(_cells(asked, windows, walk)):
        moved = walk.shelf.stock_changes() if number else walk.shelf.current_stock()
        yield ShelfMoves(cell, moved, walk.agrees)


def _cells(
    asked: StoreSlots, windows: Iterable[FamilyWindows], walk: "_StockState"
) -> Iterator[Cell]:
    """The cell of each stretch, yielded when the walk is at its end, with all sources so far."""
    stream, start = iter(windows), asked.span.start
    # In one pass: the stock at the end of a stretch is where the next one begins.
    for slot in asked.slots:
        cell = Cell(slot)
        while start < slot.end:
            if start == slot.start:
                walk.shelf.start_stretch()
            window = next(stream)
            is_known = walk.take(start, *window)
            if start >= slot.start:
                cell.windows += 1
                cell.known += is_known
                cell.events += sum(served.merged.events or 0 for served in window)
            start += WINDOW
        cell.sources, cell.statuses = {*walk.sources}, {*walk.statuses}
        yield cell


def _with_rows(cell: Cell, reached: Mapping[_Article, WindowStock], stock: StockAt) -> Cell:
    """The cell with the metric's value of each article as its rows."""
    levels = {
        article: shelved.lowest if stock.is_lowest else shelved.level
        for article, shelved in reached.items()
    }
    rows: dict[Axes, Parts] = {}
    for article, level in levels.items():
        rows[article,] = {stock.part: level}
    if rows:
        cell.parts = {stock.family.name: rows}
    # A cell is missing if a missing window leaves no article known, even if later windows are.
    if "missing" in cell.sources and not any(known is not None for known in levels.values()):
        cell.sources = {"missing"}
    return cell


@dataclass
class _StockState:
    """The state of the walk through the windows, and the quality of the windows so far."""

    sales: SalesMoves
    shelf: StockLevels
    agrees: bool = True
    sources: set[str] = field(default_factory=set)
    statuses: set[str] = field(default_factory=set)

    def take(self, start: datetime, documents: ServedWindow, receipts: ServedWindow) -> bool:
        """Add a window's moves, and return whether they are known."""
        values = documents.merged.values
        # A window whose receipts have not come is treated as one that neither layer has.
        if (
            values is None
            or receipts.merged.values is None
            or self.sales.has_missing_receipts(start, receipts.merged)
        ):
            self.sources.add("missing")
            self.statuses.add("provisional")
            self.agrees = False
            self.shelf.mark_unknown()
            return False
        self.sources |= {documents.merged.source, receipts.merged.source}
        self.statuses |= {documents.status, receipts.status}
        if not self.sales.agrees(start, receipts.merged):
            self.statuses.add("provisional")
            self.agrees = False
        # Taken even without moves: the stretch has begun then, and a later count overrules nothing.
        self.shelf.add_window(self._moves(start, values))
        return True

    def _moves(self, start: datetime, values: Mapping[Axes, Parts]) -> _LevelMoves:
        sold = self.sales.moves.get(start, {})
        moves = {article: _LEVEL.fold(*changes) for article, changes in sold.items()}
        for (article, *_), parts in values.items():
            if documented := parts[self.sales.stock.part]:
                taken = moves.get(article, _LEVEL.zero)
                moves[article] = _LEVEL.plus(documented, taken)
        return moves


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
        """The stores with their baselines. Raises ViewsUnreachable; BadQuery for a past instant."""
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
        """The sales in the span if the question is for stock. Raises ViewsUnreachable, BadQuery."""
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
            if not (unfinished := [search for search in searches if not search.is_over]):
                break
            # Once for all stores, so that all of them are of one moment.
            pointers = await self._pointers(stock.family, days)
            reads = (self._read(pointers, search, days) for search in unfinished)
            for search, reading in zip(unfinished, await asyncio.gather(*reads), strict=True):
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
        each = ((store, noted.get(store.store_id, ())) for store in stores)
        return [_ArticleSearch(store, {*values}) for store, values in each]

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
