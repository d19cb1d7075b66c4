"""Reads a store's numbers over both layers, for answers and reports, rules and simulations."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from serving.cells import coverage
from serving.cells.cells import Cell, FamilyWindows, build_cells, level_cells
from serving.cells.coverage import SensorRoster, WindowSensorSeconds
from serving.disclosure import DisclosurePolicies, SmallCells
from serving.merge.reading import Pointers, StoreDays, read_store
from serving.merge.served import FamilyReading, serve_windows
from serving.questions.question import StoreSlots, slot_days
from serving.questions.stores import Store, StoreRegistry
from serving.stock import SalesMoves, stock_cells
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.families.family import Family
from tally.time.windows import window_starts

# The length of a window, and the time that its records may take to arrive.
_UNDER_WAY = timedelta(minutes=30)


class StoreNumbers(NamedTuple):
    """The cells of a store, and what may be shown of families of people's devices."""

    cells: list[Cell]
    disclosure: DisclosurePolicies


class StoreReader:
    """Reads the families of a store, and sums them up; `coverage` says when sensors saw enough."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._small_cells = SmallCells(settings.privacy_smallest_cell, registry)
        self.coverage = coverage.CoverageRule(settings.coverage_threshold, settings.coverage_below)

    def partition(self, store_id: str) -> int:
        """The partition of the store's records."""
        return partition_number(store_id, self._settings.partitions)

    def roster(self, store: Store, families: Iterable[Family]) -> SensorRoster:
        """The store's sensors that record the families."""
        # Under small cells no sensors of people's devices: what one heard may reveal who was there.
        shown = [family for family in families if not self._small_cells.covers(family)]
        return coverage.list_sensors(store, shown)

    def utc_days(self, families: Iterable[Family], slots: StoreSlots) -> list[date]:
        """The UTC days that are read for the slots: of families of people, whole local days."""
        return slot_days(self._small_cells.slots_to_read(families, slots))

    async def read_family(self, pointers: Pointers, slots: StoreSlots) -> FamilyReading:
        """The rows of both layers of one family. Raises ViewsUnreachable."""
        store = self._registry.store(slots.store_id)
        wanted = StoreDays(
            store.store_id,
            self.partition(store.store_id),
            self.utc_days([pointers.family], slots),
            store.input_days(self._settings.key_days),
        )
        return await read_store(self._views, pointers, wanted)

    async def read_measured(self, pointers: Pointers, slots: StoreSlots) -> FamilyReading:
        """The same, with whether there ever was a sensor. Raises ViewsUnreachable."""
        # Without one there is no number and no zero.
        reading = await self.read_family(pointers, slots)
        family, store = reading.family, self._registry.store(slots.store_id)
        # Only the other stores are looked up: most have rows, or list their sensors.
        if reading.rows or not family.listed_as or coverage.list_sensors(store, [family]):
            return reading
        is_measured = await self._views.has_events(store.store_id, [family])
        return replace(reading, is_measured=is_measured)

    def sum_windows(
        self, slots: StoreSlots, readings: Sequence[FamilyReading], sold: SalesMoves | None = None
    ) -> StoreNumbers:
        """A cell for each stretch of the store; `sold` is given where they are of its stock."""
        families = [reading.family for reading in readings]
        starts = window_starts(*slots.span)
        windows = list(zip(*(serve_windows(read, starts) for read in readings), strict=True))
        seen = self._sensor_seconds(slots.store_id, families, starts, windows)
        if sold is not None:
            found = stock_cells(slots, windows, sold)
        elif slots.resets is not None:
            found = level_cells(families, slots, windows, seen)
        else:
            found = build_cells(families, slots.slots, windows, seen)
        # Also set where no sensor watched, so that joining such a stretch brings no other rule.
        for cell in found:
            cell.sensor_coverage.rule = self.coverage
        read = self._small_cells.slots_to_read(families, slots)
        return StoreNumbers(found, self._small_cells.disclosure_policies(read, readings))

    def _sensor_seconds(
        self,
        store_id: str,
        families: Sequence[Family],
        starts: Sequence[datetime],
        windows: Sequence[FamilyWindows],
    ) -> Iterable[WindowSensorSeconds]:
        store = self._registry.store(store_id)
        roster = self.roster(store, families)
        # Most questions are of sales, which no sensor records.
        if not roster:
            return coverage.NO_SENSORS
        over = datetime.now(UTC) - _UNDER_WAY
        return [
            [
                watched
                for family, window in zip(families, served, strict=True)
                # A window that is over without any row was not watched: a sensor reports zeros too.
                if expected.seconds and (window.merged.values is not None or expected.start < over)
                for watched in coverage.seconds_by_sensor(
                    roster, family, window.merged.values or {}, expected
                )
            ]
            for expected, served in zip(coverage.open_windows(store, starts), windows, strict=True)
        ]
