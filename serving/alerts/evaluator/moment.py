"""The views of one moment: which generation serves which day is asked once, and rows are read by
what was answered, however long that takes."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from runtime.sources import FAMILIES
from serving.alerts.evaluator.calendar import StoreCalendarDays, WindowSpan
from serving.merge.reading import Pointers, StoreDays, read_store
from serving.merge.served import FamilyReading
from serving.merge.views import ViewReader
from serving.query import grains
from serving.query.catalogue import Metric
from serving.query.cells import Cell
from serving.query.coverage import CoverageRule, Roster
from serving.query.question import StoreSlots, days_of
from serving.query.small_cells import SmallCells
from serving.query.stores import StoreRegistry
from serving.query.told import why_not
from serving.query.watching import Watching
from tally.families import Family
from tally.generation import Generation
from tally.instants import from_millis
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import window_starts


class FamilyWindowsOf(NamedTuple):
    """Windows of one local day of a store, in one family."""

    family: str
    store_id: str
    span: WindowSpan


class JudgedCell(NamedTuple):
    """One window of a metric: the sums, whether a generation covers it, and of each family the
    generation that serves its UTC day."""

    cell: Cell
    is_complete: bool
    is_hidden: bool
    served: tuple[tuple[str, Generation | None], ...]


class ViewsMoment:
    """Reads for the judgements of one transaction, each thing once.

    Raises ViewsUnreachable wherever something is read.
    """

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._small_cells = SmallCells(settings.privacy_smallest_cell, registry)
        self._rule = CoverageRule.of(settings)
        self._published: dict[str, dict[date, Generation | None]] = defaultdict(dict)
        self._readings: dict[FamilyWindowsOf, FamilyReading] = {}
        self._days: dict[str, StoreCalendarDays] = {}

    def days(self, store_id: str) -> StoreCalendarDays:
        """The local days of the store."""
        if store_id not in self._days:
            self._days[store_id] = StoreCalendarDays(self._registry.store(store_id))
        return self._days[store_id]

    async def published(self, family: str, days: Sequence[date]) -> dict[date, Generation]:
        """By UTC day the generation that served it when it was first asked for."""
        known = self._published[family]
        if unknown := [day for day in days if day not in known]:
            found = await self._views.published(FAMILIES[family], unknown)
            for day in unknown:
                # Who has asked meanwhile was answered first.
                known.setdefault(day, found.get(day))
        served = ((day, known[day]) for day in days)
        return {day: one for day, one in served if one is not None}

    def missing(self, wanted: Iterable[FamilyWindowsOf]) -> list[FamilyWindowsOf]:
        """Those whose rows are still to be read, once each."""
        return [one for one in dict.fromkeys(wanted) if one not in self._readings]

    async def read(self, wanted: Iterable[FamilyWindowsOf]) -> None:
        """The rows of all these windows, all at once."""
        missing = self.missing(wanted)
        # In one question for each family, ahead of the rows.
        days: dict[str, set[date]] = defaultdict(set)
        for one in missing:
            days[one.family].update(self._of(one))
        asked = (self.published(name, sorted(some)) for name, some in days.items())
        await asyncio.gather(*asked)
        readings = await asyncio.gather(*map(self._read, missing))
        self._readings |= zip(missing, readings, strict=True)

    def cells(self, metric: Metric, store_id: str, span: WindowSpan) -> list[JudgedCell]:
        """The windows of a local day that were read, in their order."""
        asked = self._asked(metric, store_id, span)
        readings = [
            self._readings[FamilyWindowsOf(family.name, store_id, span)]
            for family in metric.families
        ]
        store = self._registry.store(store_id)
        watching = Watching(store, self._roster(store_id, metric.families), self._rule)
        found = watching.cells(asked, readings, window_starts(*asked.span))
        told = self._small_cells.told(self._small_cells.read_for(metric.families, asked), readings)
        return [
            JudgedCell(
                cell,
                _is_complete(cell, readings),
                why_not(told, metric, cell.slot) is not None,
                _served(cell, readings),
            )
            for cell in found
        ]

    async def _read(self, wanted: FamilyWindowsOf) -> FamilyReading:
        family, days = FAMILIES[wanted.family], self._of(wanted)
        # What says how final a number is stays out: confirmed is what a generation covers.
        pointers = Pointers(family, await self.published(wanted.family, days), {}, {})
        store = self._registry.store(wanted.store_id)
        partition = partition_of(wanted.store_id, self._settings.partitions)
        behind = store.days_behind(self._settings.key_days)
        of_store = StoreDays(wanted.store_id, partition, days, behind)
        return await read_store(self._views, pointers, of_store)

    def _of(self, wanted: FamilyWindowsOf) -> list[date]:
        """The UTC days that are read for the windows."""
        slots = self._slots(wanted.store_id, wanted.span)
        return days_of(self._small_cells.read_for([FAMILIES[wanted.family]], slots))

    def _asked(self, metric: Metric, store_id: str, span: WindowSpan) -> StoreSlots:
        slots = self._slots(store_id, span)
        return replace(slots, resets=self.days(store_id).resets) if metric.is_level else slots

    def _slots(self, store_id: str, span: WindowSpan) -> StoreSlots:
        zone = self.days(store_id).zone
        return StoreSlots(store_id, zone, grains.slots(*map(from_millis, span), "15m", zone))

    def _roster(self, store_id: str, families: Sequence[Family]) -> Roster:
        # Of people's devices none: who was there may be known by whom it has heard.
        open_ones = [one for one in families if not self._small_cells.covers(one)]
        return Roster.of(self._registry.store(store_id), open_ones)


def _served(
    cell: Cell, readings: Sequence[FamilyReading]
) -> tuple[tuple[str, Generation | None], ...]:
    day = cell.slot.start.date()
    return tuple((one.family.name, one.published.get(day)) for one in readings)


def _is_complete(cell: Cell, readings: Sequence[FamilyReading]) -> bool:
    """Whether generations cover the window in all families, and nothing newer was read instead."""
    start = cell.slot.start
    # A row of the speed layer that has seen more events is served in place of a generation's.
    serving = (one.published.get(start.date()) for one in readings)
    return cell.sources == {"batch"} and all(one and one.covers(start) for one in serving)
