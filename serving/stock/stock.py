"""The stock of a store's articles: the last count, plus later documents, less what was sold.

Counts and documents are the rows of a family. No view holds the sales of an article, so these are
read from the receipts. A view has the sums of the receipts, and each window is checked against it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from runtime.registry.receipt_lines import load_adding_rules, parse_lines
from serving.cells.cells import Cell, FamilyWindows
from serving.merge.served import ServedWindow
from serving.metrics.formulas import StockAt
from serving.questions.question import StoreSlots
from serving.stock.items import counting_receipts
from serving.storage.receipts import ReceiptHead, StoredReceipt
from tally.algebra.level import Level
from tally.algebra.merge import Axes, MergedWindow, Parts
from tally.algebra.parts import Value
from tally.algebra.shelf import StockLevels, WindowStock
from tally.events.receipt_rules import LineFacts
from tally.time.windows import EPOCH, WINDOW, window_start

_LEVEL = Level("stock")
_MILLI = timedelta(milliseconds=1)
_Article = str
# Instants in milliseconds since 1970, and the change of the level at each.
_Moves = tuple[list[int], list[int]]
_LevelMoves = dict[_Article, Value]


@dataclass
class SalesMoves:
    """The units that the receipts of a stretch took from articles, by window start (UTC).

    `units` are those of the lines of all articles, in thousandths; `event_ids` are the identities
    of all receipts.
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
            self.lines += len(receipt.lines)
            self._add(receipt, head.happened_at)

    def _add(self, receipt: StoredReceipt, closed_at: datetime) -> None:
        lines: dict[_Article, list[LineFacts]] = defaultdict(list)
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

    def moves_in_window(self, start: datetime) -> _LevelMoves:
        """The moves by sales in the window, by article, as values of a level."""
        moves = self.moves.get(start, {})
        return {article: _LEVEL.fold(*changes) for article, changes in moves.items()}

    def has_missing_receipts(self, start: datetime, served: MergedWindow) -> bool:
        """Whether the view has counted receipts of the window that are not among these."""
        return self._count(start) < (served.events or 0)

    def agrees(self, start: datetime, served: MergedWindow) -> bool:
        """Whether the view has counted exactly these receipts of the window, and these units.

        It may not have yet, where a receipt came late.
        """
        values = served.values or {}
        units = sum(self.stock.sales.raw_total(parts) for parts in values.values())
        return self._count(start) == served.events and self.units[start] == units

    def _count(self, start: datetime) -> int:
        return len(self.event_ids.get(start, ()))


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

    The windows ascend and fill asked.span exactly; each is of the documents' family and of the
    receipts'.
    """
    walk = _StockState(sold, StockLevels(dict.fromkeys(sold.articles)))
    cells = _cells(asked, windows, walk)
    return [_with_rows(cell, walk.shelf.current_stock(), sold.stock) for cell in cells]


def shelf_moves(
    asked: StoreSlots, windows: Iterable[FamilyWindows], sold: SalesMoves
) -> Iterator[ShelfMoves]:
    """The moves in each stretch; the windows are as in stock_cells().

    The cost grows with the articles plus the moves since they were counted, and not with articles
    times stretches.
    """
    walk = _StockState(sold, StockLevels(dict.fromkeys(sold.articles)))
    for number, cell in enumerate(_cells(asked, windows, walk)):
        moved = walk.shelf.stock_changes() if number else walk.shelf.current_stock()
        yield ShelfMoves(cell, moved, walk.agrees)


def _cells(
    asked: StoreSlots, windows: Iterable[FamilyWindows], walk: "_StockState"
) -> Iterator[Cell]:
    """The cell of each stretch, yielded when the walk is at the end of the stretch.

    The sources of a cell are those of all windows since the articles' last count.
    """
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
        moves = self.sales.moves_in_window(start)
        for (article, *_), parts in values.items():
            if documented := parts[self.sales.stock.part]:
                taken = moves.get(article, _LEVEL.zero)
                moves[article] = _LEVEL.plus(documented, taken)
        return moves
