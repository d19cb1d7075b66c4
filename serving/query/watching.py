"""The cells of a store's stretches, each with what the store's sensors saw of it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from serving.merge.served import FamilyReading, serve_windows
from serving.query.cells import Cell, FamilyWindows, cells
from serving.query.coverage import (
    NOBODY_WATCHES,
    CoverageRule,
    Roster,
    SeenWindow,
    expected_windows,
)
from serving.query.levels import level_cells
from serving.query.question import StoreSlots
from serving.query.stock import SoldMoves, stock_cells
from serving.query.stores import Store
from tally.families import Family

# A window and what of it may be on its way.
_UNDER_WAY = timedelta(minutes=30)


class Watching(NamedTuple):
    """Looks at the sensors of a store; `rule`: when they have seen enough."""

    store: Store
    roster: Roster
    rule: CoverageRule

    def cells(
        self,
        asked: StoreSlots,
        readings: Sequence[FamilyReading],
        starts: Sequence[datetime],
        sold: SoldMoves | None = None,
    ) -> list[Cell]:
        """A cell for each stretch of the store, of windows that start then (UTC).

        `sold` is there where the cells are of its stock.
        """
        windows = list(zip(*(serve_windows(one, starts) for one in readings), strict=True))
        families = [reading.family for reading in readings]
        seen = self._seen(families, starts, windows)
        if sold is not None:
            found = stock_cells(asked, windows, sold)
        elif asked.resets is not None:
            found = level_cells(families, asked, windows, seen)
        else:
            found = cells(families, asked.slots, windows, seen)
        # Also of stretches that nobody watched: joined to others they bring no rule of their own.
        for cell in found:
            cell.watch.rule = self.rule
        return found

    def _seen(
        self,
        families: Sequence[Family],
        starts: Sequence[datetime],
        windows: Sequence[FamilyWindows],
    ) -> Iterable[SeenWindow]:
        """What each sensor of the families saw of each window, `starts` (UTC) being theirs."""
        # Most questions are of sales, which nobody has to stand at a door for.
        if not self.roster.by_family:
            return NOBODY_WATCHES
        over = datetime.now(UTC) - _UNDER_WAY
        return [
            [
                told
                for family, one in zip(families, served, strict=True)
                # What is over and has no row at all nobody has told of, not even a zero.
                if expected.seconds and (one.merged.values is not None or expected.start < over)
                for told in self.roster.seen(family, one.merged.values or {}, expected)
            ]
            for expected, served in zip(expected_windows(self.store, starts), windows, strict=True)
        ]
