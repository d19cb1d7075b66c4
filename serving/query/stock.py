"""What there is of a store's articles: the last count, the documents since, less what was sold.

Counts and documents are the rows of a family. What was sold of an article no view holds: that is
read from the receipts, whose sums a view has, and each window says whether both agree.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from runtime.receipt_lines import adding_rules, readable_lines
from serving.merge.receipts import ReceiptHead, StoredReceipt
from serving.merge.served import ServedWindow
from serving.query.cells import Cell, FamilyWindows
from serving.query.formulas import StockAt
from serving.query.items import counted_ones
from serving.query.question import StoreSlots
from tally.algebra.level import Level
from tally.algebra.merge import Axes, MergedWindow, Parts
from tally.algebra.parts import Value
from tally.algebra.shelf import Reached, Shelf
from tally.receipt_rules import LineFacts
from tally.windows import WINDOW, window_start

_LEVEL = Level("stock")
_EPOCH, _MILLI = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_Article = str
# Instants in milliseconds since 1970, and what a level takes of each.
_Moves = tuple[list[int], list[int]]
_Taken = dict[_Article, Value]


@dataclass
class SoldMoves:
    """What the receipts of a stretch took of the articles, by window start (UTC).

    `units` are of all lines, in thousandths, whatever their article; `seen` are the identities of
    all receipts.
    """

    stock: StockAt
    articles: frozenset[_Article]
    lines: int = 0
    seen: dict[datetime, set[str]] = field(default_factory=lambda: defaultdict(set))
    units: Counter[datetime] = field(default_factory=Counter)
    moves: dict[datetime, dict[_Article, _Moves]] = field(default_factory=dict)

    def saw(self, heads: Sequence[ReceiptHead]) -> None:
        """Those that do not count too: a view counts them among its events."""
        for one in heads:
            self.seen[window_start(one.happened_at)].add(one.event_id)

    def add(self, receipts: Iterable[StoredReceipt], counting: Mapping[str, ReceiptHead]) -> None:
        """Those of the receipts that count."""
        for receipt, head in counted_ones(receipts, counting):
            self.lines += len(receipt.lines)
            self._add(receipt, head.happened_at)

    def _add(self, receipt: StoredReceipt, closed_at: datetime) -> None:
        lines: dict[_Article, list[LineFacts]] = defaultdict(list)
        for line in readable_lines(receipt.lines):
            lines[line.item_id].append(line.facts)
        start = window_start(closed_at)
        for article, facts in lines.items():
            units = self.stock.sold.undivided(adding_rules().added(receipt.kind, facts))
            self.units[start] += units
            if units and article in self.articles:
                of_window = self.moves.setdefault(start, {})
                at, brought = of_window.setdefault(article, ([], []))
                at.append((closed_at - _EPOCH) // _MILLI)
                brought.append(Level.moved(-units))

    def of(self, start: datetime) -> _Taken:
        """What was taken in the window, by article as a level has it."""
        moves = self.moves.get(start, {})
        return {article: _LEVEL.of(*some) for article, some in moves.items()}

    def lacks(self, start: datetime, served: MergedWindow) -> bool:
        """Whether the view has counted receipts of the window that are not among these."""
        return self._count(start) < (served.events or 0)

    def agrees(self, start: datetime, served: MergedWindow) -> bool:
        """Whether the view has counted the very receipts of the window, and these units.

        It has not yet, where one came late.
        """
        values = served.values or {}
        units = sum(self.stock.sold.undivided(parts) for parts in values.values())
        return self._count(start) == served.events and self.units[start] == units

    def _count(self, start: datetime) -> int:
        return len(self.seen.get(start, ()))


class ShelfMoves(NamedTuple):
    """A stretch, and by article what there is at its end and the least in it: thousandths, or None.

    `moved`: of the first stretch all articles, of any other those that moved in it or of which
    nobody knows any more; of the rest there is what the stretch before left.
    `agrees`: up to its end the receipts are the very ones that the views have counted.
    """

    cell: Cell
    moved: Mapping[_Article, Reached]
    agrees: bool


def stock_cells(
    asked: StoreSlots,
    windows: Iterable[FamilyWindows],
    sold: SoldMoves,
) -> list[Cell]:
    """A cell for each stretch, whose rows have what there is by article: thousandths, or None.

    The windows ascend and fill asked.span exactly: of the documents' family and of the receipts'.
    """
    walk = _Walk(sold, Shelf(dict.fromkeys(sold.articles)))
    cells = _cells(asked, windows, walk)
    return [_with_rows(one, walk.shelf.reached(), sold.stock) for one in cells]


def shelf_moves(
    asked: StoreSlots,
    windows: Iterable[FamilyWindows],
    sold: SoldMoves,
) -> Iterator[ShelfMoves]:
    """What moved in each stretch; the windows as stock_cells() has them.

    It costs as much as there are articles, and moves since they were counted; and not articles
    times stretches.
    """
    walk = _Walk(sold, Shelf(dict.fromkeys(sold.articles)))
    for number, cell in enumerate(_cells(asked, windows, walk)):
        moved = walk.shelf.moved() if number else walk.shelf.reached()
        yield ShelfMoves(cell, moved, walk.agrees)


def _cells(asked: StoreSlots, windows: Iterable[FamilyWindows], walk: "_Walk") -> Iterator[Cell]:
    """The cell of each stretch, when the walk has come to its end.

    The sources of a cell are those of all windows since the articles are counted.
    """
    stream, start = iter(windows), asked.span.start
    # In one pass: what there is at the end of a stretch is where the next one begins.
    for slot in asked.slots:
        cell = Cell(slot)
        while start < slot.end:
            if start == slot.start:
                walk.shelf.begin()
            window = next(stream)
            is_known = walk.take(start, *window)
            if start >= slot.start:
                cell.windows += 1
                cell.known += is_known
                cell.events += sum(one.merged.events or 0 for one in window)
            start += WINDOW
        cell.sources, cell.statuses = {*walk.sources}, {*walk.statuses}
        yield cell


def _with_rows(cell: Cell, reached: Mapping[_Article, Reached], stock: StockAt) -> Cell:
    """The cell with what the metric tells of each article."""
    levels = {
        article: one.lowest if stock.is_lowest else one.level for article, one in reached.items()
    }
    rows: dict[Axes, Parts] = {}
    for article, one in levels.items():
        rows[article,] = {stock.part: one}
    if rows:
        cell.parts = {stock.family.name: rows}
    # Known of no article for what is missing, however much is known since.
    if "missing" in cell.sources and not any(one is not None for one in levels.values()):
        cell.sources = {"missing"}
    return cell


@dataclass
class _Walk:
    """Where the walk through the windows has come, and what the windows so far are worth."""

    sold: SoldMoves
    shelf: Shelf
    agrees: bool = True
    sources: set[str] = field(default_factory=set)
    statuses: set[str] = field(default_factory=set)

    def take(self, start: datetime, told: ServedWindow, receipts: ServedWindow) -> bool:
        """Whether it is known what moved in the window."""
        values = told.merged.values
        # A window of which the receipts have not come is as one that neither layer has.
        if (
            values is None
            or receipts.merged.values is None
            or self.sold.lacks(start, receipts.merged)
        ):
            self.sources.add("missing")
            self.statuses.add("provisional")
            self.agrees = False
            self.shelf.forget()
            return False
        self.sources |= {told.merged.source, receipts.merged.source}
        self.statuses |= {told.status, receipts.status}
        if not self.sold.agrees(start, receipts.merged):
            self.statuses.add("provisional")
            self.agrees = False
        # Also of nothing: the stretch has begun, and a count behind it overrules nothing.
        self.shelf.take(self._moves(start, values))
        return True

    def _moves(self, start: datetime, values: Mapping[Axes, Parts]) -> _Taken:
        moves = self.sold.of(start)
        for (article, *_), parts in values.items():
            if told := parts[self.sold.stock.part]:
                taken = moves.get(article, _LEVEL.zero)
                moves[article] = _LEVEL.plus(told, taken)
        return moves
