"""The views of one moment: which generation serves which day is asked once, and rows are read by
what was answered, however long that takes."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple, TypeAlias, TypeVar

from runtime.sources import FAMILIES
from serving.alerts.evaluator.calendar import StoreCalendarDays, WindowSpan
from serving.alerts.evaluator.shelves import DayShelves, WindowShelves
from serving.alerts.evaluator.stock import (
    ShelfReach,
    StockDay,
    StockViews,
    StockWindowsOf,
)
from serving.alerts.evaluator.usual import UsualOf, UsualSource, UsualWindows
from serving.merge.reading import Pointers, StoreDays, read_store
from serving.merge.served import FamilyReading
from serving.merge.views import ViewReader
from serving.query import catalogue, grains
from serving.query.catalogue import Metric
from serving.query.cells import Cell
from serving.query.coverage import CoverageRule, Roster
from serving.query.question import StoreSlots, days_of
from serving.query.small_cells import SmallCells
from serving.query.stores import StoreRegistry
from serving.query.told import ToldFamilies, why_not
from serving.query.watching import Watching
from tally.epochs import Epochs
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


# Of each family the generation that serves a UTC day.
ServedBy: TypeAlias = tuple[tuple[str, Generation | None], ...]


class JudgedCell(NamedTuple):
    """One window of a metric: the sums, whether a generation covers it, and of each family the
    generation that serves its UTC day.

    Of a stock `shelves` are there in place of sums, and `reach`: what else it hangs on.
    """

    cell: Cell
    is_complete: bool
    is_hidden: bool
    served: ServedBy
    shelves: WindowShelves | None = None
    reach: tuple[ShelfReach, ...] = ()


class _SumsOf(NamedTuple):
    """What several metrics share: sums of families, of a level since its store's day began."""

    families: tuple[Family, ...]
    is_level: bool
    store_id: str
    span: WindowSpan


class _FamilySums(NamedTuple):
    """Those of each window, and what of families of people may be told."""

    cells: list[JudgedCell]
    told: ToldFamilies


_Of = TypeVar("_Of", FamilyWindowsOf, StockWindowsOf, UsualOf, _SumsOf)
_Read = TypeVar("_Read")
# What is read for a day.
ReadingWanted: TypeAlias = FamilyWindowsOf | StockWindowsOf | UsualOf


def wanted_of(metric: Metric, store_id: str, span: WindowSpan) -> Iterable[ReadingWanted]:
    """What has to be read of the metric, for windows of one local day of a store."""
    if metric.stock is not None:
        return [StockWindowsOf(metric.entry.id, store_id, span)]
    return [FamilyWindowsOf(family.name, store_id, span) for family in metric.families]


class ViewsMoment:
    """Reads for the judgements of one transaction, each thing once.

    Raises ViewsUnreachable wherever something is read.
    """

    def __init__(
        self,
        views: ViewReader,
        registry: StoreRegistry,
        settings: Settings,
        usual: UsualSource | None = None,
    ) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._usual_source, self._usual = usual, dict[UsualOf, UsualWindows]()
        self._small_cells = SmallCells(settings.privacy_smallest_cell, registry)
        self._rule = CoverageRule.of(settings)
        self._published: dict[str, dict[date, Generation | None]] = defaultdict(dict)
        self._readings: dict[FamilyWindowsOf, FamilyReading] = {}
        self._sums: dict[_SumsOf, _FamilySums] = {}
        self._stock = StockViews(views, settings, self.published)
        self._stocks: dict[StockWindowsOf, StockDay | None] = {}
        self._days: dict[str, StoreCalendarDays] = {}

    def days(self, store_id: str) -> StoreCalendarDays:
        """The local days of the store."""
        if store_id not in self._days:
            self._days[store_id] = StoreCalendarDays(self._registry.store(store_id))
        return self._days[store_id]

    def definition(self, family: str) -> Epochs:
        """The family's epochs by its definition and the rules of stores: nothing was raised."""
        one = FAMILIES[family]
        return Epochs(one.epoch, revised=self._registry.visit_rules.revised if one.reading else ())

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

    async def pointers(self, family: Family, days: Sequence[date]) -> Pointers:
        """By what the rows of the days are read."""
        # What says how final a number is stays out: confirmed is what a generation covers.
        return Pointers(family, await self.published(family.name, days), {}, {})

    def missing(self, wanted: Iterable[ReadingWanted]) -> list[ReadingWanted]:
        """Those whose rows are still to be read, once each."""
        known = (self._readings, self._stocks, self._usual)
        return [one for one in dict.fromkeys(wanted) if not any(one in some for some in known)]

    async def read(self, wanted: Iterable[ReadingWanted]) -> None:
        """The rows of all these windows, all at once."""
        all_missing = self.missing(wanted)
        stocks = [one for one in all_missing if isinstance(one, StockWindowsOf)]
        missing = [one for one in all_missing if isinstance(one, FamilyWindowsOf)]
        # In one question for each family, ahead of the rows.
        days: dict[str, set[date]] = defaultdict(set)
        for one in missing:
            days[one.family].update(self._of(one))
        asked = (self.published(name, sorted(some)) for name, some in days.items())
        await asyncio.gather(*asked)
        readings = await asyncio.gather(*map(self._read, missing))
        self._readings |= zip(missing, readings, strict=True)
        # One by one: what each of them hangs on is read all at once already.
        for stock in stocks:
            slots = self._slots(stock.store_id, stock.span)
            self._stocks[stock] = await self._stock.read(catalogue.metric(stock.metric), slots)

        if usual := [one for one in all_missing if isinstance(one, UsualOf)]:
            # Nobody who says what is usual: nothing is.
            self._usual |= await self._usual_source.read(usual) if self._usual_source else {}

    def usual(self, of: UsualOf | None) -> UsualWindows:
        """By window what is usual on a local day that was read; nothing where nobody knows."""
        return {} if of is None else self._usual.get(of, {})

    def cells(self, metric: Metric, store_id: str, span: WindowSpan) -> list[JudgedCell]:
        """The windows of a local day that were read, in their order."""
        if metric.stock is not None:
            return self._stock_cells(StockWindowsOf(metric.entry.id, store_id, span))
        families = metric.families
        readings = [self._readings[FamilyWindowsOf(one.name, store_id, span)] for one in families]
        of = _SumsOf(families, metric.is_level, store_id, span)
        if of not in self._sums:
            self._sums[of] = self._summed(of, readings)
        cells, told = self._sums[of]
        if not told:
            # Most families are of no people: there is nothing to be withheld.
            return cells
        return [
            one._replace(is_hidden=why_not(told, metric, one.cell.slot) is not None)
            for one in cells
        ]

    def shelves(self, metric: Metric, store_id: str, span: WindowSpan) -> DayShelves | None:
        """The articles of a local day that was read; None where too much would have to be read."""
        read = self._stocks[StockWindowsOf(metric.entry.id, store_id, span)]
        return None if read is None else read.shelves

    def forget(self, store_ids: Iterable[str]) -> None:
        """Drops the rows of these stores; which generations serve stays as it was answered."""
        gone = {*store_ids}
        _drop(self._readings, gone)
        _drop(self._stocks, gone)
        _drop(self._sums, gone)
        _drop(self._usual, gone)

    def _summed(self, of: _SumsOf, readings: Sequence[FamilyReading]) -> _FamilySums:
        store = self._registry.store(of.store_id)
        slots = self._slots(of.store_id, of.span)
        asked = replace(slots, resets=self.days(of.store_id).resets) if of.is_level else slots
        watching = Watching(store, self._roster(of.store_id, of.families), self._rule)
        served = _served(readings, slots)
        cells = [
            JudgedCell(
                one,
                _is_complete(one, readings),
                False,
                served[one.slot.start.date()],
            )
            for one in watching.cells(asked, readings, window_starts(*asked.span))
        ]
        read_for = self._small_cells.read_for(of.families, slots)
        return _FamilySums(cells, self._small_cells.told(read_for, readings))

    def _stock_cells(self, wanted: StockWindowsOf) -> list[JudgedCell]:
        read = self._stocks[wanted]
        if read is None:
            # Not complete either: else what was told of it would be taken back.
            unknown = (Cell(slot) for slot in self._slots(wanted.store_id, wanted.span).slots)
            return [JudgedCell(one, False, False, ()) for one in unknown]
        served = _served(read.readings, self._slots(wanted.store_id, wanted.span))
        return [
            JudgedCell(
                one.cell,
                one.agrees and _is_complete(one.cell, read.readings),
                False,
                served[one.cell.slot.start.date()],
                WindowShelves(read.shelves, window),
                read.reach,
            )
            for window, one in enumerate(read.stretches)
        ]

    async def _read(self, wanted: FamilyWindowsOf) -> FamilyReading:
        days = self._of(wanted)
        pointers = await self.pointers(FAMILIES[wanted.family], days)
        store = self._registry.store(wanted.store_id)
        partition = partition_of(wanted.store_id, self._settings.partitions)
        behind = store.days_behind(self._settings.key_days)
        of_store = StoreDays(wanted.store_id, partition, days, behind)
        return await read_store(self._views, pointers, of_store)

    def _of(self, wanted: FamilyWindowsOf) -> list[date]:
        """The UTC days that are read for the windows."""
        slots = self._slots(wanted.store_id, wanted.span)
        return days_of(self._small_cells.read_for([FAMILIES[wanted.family]], slots))

    def _slots(self, store_id: str, span: WindowSpan) -> StoreSlots:
        clock = self.days(store_id).store.clock
        return StoreSlots(store_id, clock, grains.slots(*map(from_millis, span), "15m", clock))

    def _roster(self, store_id: str, families: Sequence[Family]) -> Roster:
        # Of people's devices none: who was there may be known by whom it has heard.
        open_ones = [one for one in families if not self._small_cells.covers(one)]
        return Roster.of(self._registry.store(store_id), open_ones)


def _drop(held: dict[_Of, _Read], store_ids: Collection[str]) -> None:
    for of in [one for one in held if one.store_id in store_ids]:
        del held[of]


def _served(readings: Sequence[FamilyReading], slots: StoreSlots) -> dict[date, ServedBy]:
    """By UTC day of the windows what serves it, of each family."""
    return {
        day: tuple((one.family.name, one.published.get(day)) for one in readings)
        for day in days_of(slots)
    }


def _is_complete(cell: Cell, readings: Sequence[FamilyReading]) -> bool:
    """Whether generations cover the window in all families, and nothing newer was read instead."""
    start = cell.slot.start
    # A row of the speed layer that has seen more events is served in place of a generation's.
    serving = (one.published.get(start.date()) for one in readings)
    return cell.sources == {"batch"} and all(one and one.covers(start) for one in serving)
