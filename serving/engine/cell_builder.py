"""The cells of a store's stretches, each with what the store's sensors saw of it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from serving.cells.cells import Cell, FamilyWindows, build_cells
from serving.cells.coverage import (
    NO_SENSORS,
    CoverageRule,
    SensorRoster,
    WindowSensorSeconds,
    open_windows,
)
from serving.cells.levels import level_cells
from serving.merge.served import FamilyReading, serve_windows
from serving.questions.question import StoreSlots
from serving.questions.stores import Store
from serving.stock.stock import SalesMoves, stock_cells
from tally.families.family import Family

# The length of a window, and the time that its records may take to arrive.
_UNDER_WAY = timedelta(minutes=30)


class CellBuilder(NamedTuple):
    """Adds to a store's cells what its sensors saw; `rule` says when they saw enough."""

    store: Store
    roster: SensorRoster
    rule: CoverageRule

    def cells(
        self,
        asked: StoreSlots,
        readings: Sequence[FamilyReading],
        starts: Sequence[datetime],
        sold: SalesMoves | None = None,
    ) -> list[Cell]:
        """A cell for each stretch of the store; `starts` (UTC) are those of its windows.

        `sold` is given where the cells are of its stock.
        """
        windows = list(zip(*(serve_windows(read, starts) for read in readings), strict=True))
        families = [reading.family for reading in readings]
        seen = self._sensor_seconds(families, starts, windows)
        if sold is not None:
            found = stock_cells(asked, windows, sold)
        elif asked.resets is not None:
            found = level_cells(families, asked, windows, seen)
        else:
            found = build_cells(families, asked.slots, windows, seen)
        # Also set where no sensor watched, so that joining such a stretch brings no other rule.
        for cell in found:
            cell.sensor_coverage.rule = self.rule
        return found

    def _sensor_seconds(
        self,
        families: Sequence[Family],
        starts: Sequence[datetime],
        windows: Sequence[FamilyWindows],
    ) -> Iterable[WindowSensorSeconds]:
        """The seconds that each sensor of the families saw of the windows of these starts (UTC)."""
        # Most questions are of sales, which no sensor records.
        if not self.roster.by_family:
            return NO_SENSORS
        over = datetime.now(UTC) - _UNDER_WAY
        return [
            [
                watched
                for family, window in zip(families, served, strict=True)
                # A window that is over without any row was not watched: a sensor reports zeros too.
                if expected.seconds and (window.merged.values is not None or expected.start < over)
                for watched in self.roster.seconds_by_sensor(
                    family, window.merged.values or {}, expected
                )
            ]
            for expected, served in zip(open_windows(self.store, starts), windows, strict=True)
        ]
