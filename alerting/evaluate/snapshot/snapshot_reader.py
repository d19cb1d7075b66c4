"""A snapshot of the views: all rows are read by the generations that served when first asked.

Which generation serves a day is queried once, however long the reading takes.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import NamedTuple, TypeAlias

from alerting.evaluate.scope.calendar import StoreCalendarDays, WindowSpan
from alerting.evaluate.scope.rule_set import (
    BaselineRequest,
    BaselineWindows,
    VersionMetrics,
    baseline_request,
)
from alerting.evaluate.snapshot.stock import (
    DayShelves,
    StockDay,
    StockDayRequest,
    WindowShelves,
    read_stock_day,
)
from alerting.evaluate.snapshot.window_facts import (
    FamilyDayRequest,
    FamilyGenerations,
    MetricCell,
    WindowCells,
)
from alerting.rules.rule import Rule
from runtime.registry.sources import FAMILIES
from runtime.registry.stores import store_visit_rules
from serving.cells.cells import Cell
from serving.disclosure import DisclosurePolicies, suppression_reason
from serving.items import ItemReader
from serving.merge.reading import Pointers, find_published
from serving.merge.served import FamilyReading
from serving.questions import catalogue, grains
from serving.questions.catalogue import Metric
from serving.questions.question import StoreSlots, slot_days
from serving.questions.stores import StoreRegistry
from serving.stock import StockReader
from serving.storage.views import ViewReader
from serving.store_reader import StoreReader
from tally.config.settings import Settings
from tally.families.epochs import Epochs, StoreVisitRules
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import from_millis


class _SumsKey(NamedTuple):
    """The key of sums that several metrics share; a level is summed since the store's day began."""

    families: tuple[Family, ...]
    is_level: bool
    span: WindowSpan


# Reads usual values by day and window; windows without a known value are absent.
BaselineReads: TypeAlias = Callable[
    [Sequence[BaselineRequest]], Awaitable[Mapping[BaselineRequest, BaselineWindows]]
]
# One thing to read for a store's day.
ReadRequest: TypeAlias = FamilyDayRequest | StockDayRequest | BaselineRequest


@dataclass
class _StoreRows:
    """Everything that was read of one store, and its sums."""

    readings: dict[FamilyDayRequest, FamilyReading] = field(default_factory=dict)
    stocks: dict[StockDayRequest, StockDay | None] = field(default_factory=dict)
    baselines: dict[BaselineRequest, BaselineWindows] = field(default_factory=dict)
    # The sums of each window, and what may be published of families of people's devices.
    sums: dict[_SumsKey, tuple[list[MetricCell], DisclosurePolicies]] = field(default_factory=dict)

    def has(self, request: ReadRequest) -> bool:
        """Whether it was read."""
        return request in self.readings or request in self.stocks or request in self.baselines


def list_requests(
    rule: Rule, metrics: VersionMetrics, store_id: str, span: WindowSpan
) -> Iterator[ReadRequest]:
    """What has to be read to evaluate windows of one local day of a store by the rule."""
    for metric in metrics.all:
        if metric.stock is not None:
            yield StockDayRequest(metric.entry.id, store_id, span)
        else:
            for family in metric.families:
                yield FamilyDayRequest(family.name, store_id, span)
    if request := baseline_request(rule, store_id, span.start):
        yield request


class SnapshotReader:
    """The reader for the evaluations of one transaction; it reads each thing once.

    `baselines`: None for no usual values. Raises ViewsUnreachable when a read fails.
    """

    def __init__(
        self,
        views: ViewReader,
        registry: StoreRegistry,
        settings: Settings,
        baselines: BaselineReads | None = None,
    ) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._read_baselines = baselines
        self._reader = StoreReader(views, registry, settings)
        self._generations: dict[str, dict[date, Generation | None]] = defaultdict(dict)
        self.ever_published: dict[str, dict[date, Collection[int]]] = defaultdict(dict)
        self._rows: dict[str, _StoreRows] = defaultdict(_StoreRows)
        self._stock_reader = StockReader(views, settings, ItemReader(views), self.pointers)
        self._days: dict[str, StoreCalendarDays] = {}

    def days(self, store_id: str) -> StoreCalendarDays:
        """The local days of the store."""
        if store_id not in self._days:
            self._days[store_id] = StoreCalendarDays(self._registry.store(store_id))
        return self._days[store_id]

    def definition(self, family: str) -> Epochs:
        """The family's epochs by its definition and the stores' rules, without any raised day."""
        source = FAMILIES[family]
        increases = self._visit_rules.epoch_increases if source.reading else ()
        return Epochs(source.epoch, increases=increases)

    @cached_property
    def _visit_rules(self) -> StoreVisitRules:
        entries = {name: store.entry for name, store in self._registry.listed.items()}
        return store_visit_rules(entries, self._settings.default_timezone)

    async def generations(self, family: str, days: Sequence[date]) -> dict[date, Generation]:
        """The generation by UTC day that served it when it was first queried."""
        known = self._generations[family]
        if unknown := [day for day in days if day not in known]:
            found = await self._views.current_generations(FAMILIES[family], unknown)
            await self.read_published(family, [*found])
            for day in unknown:
                # A concurrent query may have stored its answer first; that one counts.
                known.setdefault(day, found.get(day))
        served = ((day, known[day]) for day in days)
        return {day: generation for day, generation in served if generation is not None}

    async def pointers(self, family: Family, days: Sequence[date]) -> Pointers:
        """The pointers by which the rows of the days are read."""
        # What shows how final a number is stays out: here, confirmed is what a generation covers.
        served = await self.generations(family.name, days)
        return Pointers(family, served, {}, self.ever_published[family.name])

    async def read_published(self, family: str, days: Sequence[date]) -> None:
        """Read which generations' versions of rows count on the UTC days, each day once."""
        known = self.ever_published[family]
        if unknown := [day for day in days if day not in known]:
            known.update(find_published(await self._views.coverings(FAMILIES[family], unknown)))

    def missing(self, requests: Iterable[ReadRequest]) -> list[ReadRequest]:
        """The requests that were not read yet, each once."""
        distinct = dict.fromkeys(requests)
        return [request for request in distinct if not self._rows[request.store_id].has(request)]

    async def read(self, requests: Iterable[ReadRequest]) -> None:
        """Read the rows of all these windows concurrently."""
        all_missing = self.missing(requests)
        slots = {
            request: self._slots(request.store_id, request.span)
            for request in all_missing
            if not isinstance(request, BaselineRequest)
        }
        missing = [reading for reading in slots if isinstance(reading, FamilyDayRequest)]
        # One query of the generations for each family, before the rows are read.
        days: dict[str, set[date]] = defaultdict(set)
        for request in missing:
            family = FAMILIES[request.family]
            days[family.name].update(self._reader.utc_days([family], slots[request]))
        queries = (self.generations(name, sorted(dates)) for name, dates in days.items())
        await asyncio.gather(*queries)
        reads = (self._read_family(FAMILIES[each.family], slots[each]) for each in missing)
        for request, reading in zip(missing, await asyncio.gather(*reads), strict=True):
            self._rows[request.store_id].readings[request] = reading
        # One stock at a time: each of them already reads its parts concurrently.
        for stock in (reading for reading in slots if isinstance(reading, StockDayRequest)):
            reader = self._stock_reader, self._read_family
            day = await read_stock_day(catalogue.metric(stock.metric), slots[stock], *reader)
            self._rows[stock.store_id].stocks[stock] = day
        usual_days = [usual for usual in all_missing if isinstance(usual, BaselineRequest)]
        if usual_days and self._read_baselines is not None:
            for usual, windows in (await self._read_baselines(usual_days)).items():
                self._rows[usual.store_id].baselines[usual] = windows

    def windows(
        self, rule: Rule, metrics: VersionMetrics, store_id: str, span: WindowSpan
    ) -> Iterator[WindowCells]:
        """What the rule reads of each window of a local day that was read, in order of time."""
        baselines: BaselineWindows = {}
        if (request := baseline_request(rule, store_id, span.start)) is not None:
            baselines = self._rows[store_id].baselines.get(request, {})
        read = [self.cells(metric, store_id, span) for metric in metrics.all]
        beside = len(metrics.minimum)
        for start, first, *rest in zip(span.windows, *read, strict=True):
            minimum, further = tuple(rest[:beside]), tuple(rest[beside:])
            yield WindowCells(first, minimum, baselines.get(start), further)

    def cells(self, metric: Metric, store_id: str, span: WindowSpan) -> list[MetricCell]:
        """The windows of a local day that were read, in order of time."""
        if metric.stock is not None:
            return self._stock_cells(StockDayRequest(metric.entry.id, store_id, span))
        rows, families = self._rows[store_id], metric.families
        key = _SumsKey(families, metric.is_level, span)
        if key not in rows.sums:
            requests = (FamilyDayRequest(family.name, store_id, span) for family in families)
            readings = [rows.readings[request] for request in requests]
            rows.sums[key] = self._sum_windows(key, store_id, readings)
        cells, publishable = rows.sums[key]
        if not publishable:
            # Most families are not about people, so nothing has to be withheld.
            return cells
        reasons = (suppression_reason(publishable, metric, cell.cell.slot) for cell in cells)
        pairs = zip(cells, reasons, strict=True)
        return [cell._replace(is_hidden=reason is not None) for cell, reason in pairs]

    def shelves(self, metric: Metric, store_id: str, span: WindowSpan) -> DayShelves | None:
        """The articles of a local day that was read; None where it was too much to read."""
        read = self._rows[store_id].stocks[StockDayRequest(metric.entry.id, store_id, span)]
        return None if read is None else read.shelves

    def drop_stores(self, store_ids: Iterable[str]) -> None:
        """Drop the rows of these stores; the answers about serving generations stay."""
        for store_id in store_ids:
            self._rows.pop(store_id, None)

    def _sum_windows(
        self, key: _SumsKey, store_id: str, readings: Sequence[FamilyReading]
    ) -> tuple[list[MetricCell], DisclosurePolicies]:
        slots = self._slots(store_id, key.span)
        summed = replace(slots, resets=self.days(store_id).resets) if key.is_level else slots
        found = self._reader.sum_windows(summed, readings)
        served = _generations_by_day(readings, slots)
        cells = []
        for cell in found.cells:
            generations = served[cell.slot.start.date()]
            cells.append(MetricCell(cell, _is_covered(cell, readings), False, generations))
        return cells, found.disclosure

    def _stock_cells(self, request: StockDayRequest) -> list[MetricCell]:
        read = self._rows[request.store_id].stocks[request]
        slots = self._slots(request.store_id, request.span)
        if read is None:
            # The cells are not covered either; otherwise published alerts would be retracted.
            return [MetricCell(Cell(slot), False, False, ()) for slot in slots.slots]
        served = _generations_by_day(read.readings, slots)
        return [
            MetricCell(
                moves.cell,
                moves.agrees and _is_covered(moves.cell, read.readings),
                False,
                served[moves.cell.slot.start.date()],
                WindowShelves(read.shelves, window),
                read.speed_rows,
            )
            for window, moves in enumerate(read.windows)
        ]

    async def _read_family(self, family: Family, slots: StoreSlots) -> FamilyReading:
        pointers = await self.pointers(family, self._reader.utc_days([family], slots))
        return await self._reader.read_family(pointers, slots)

    def _slots(self, store_id: str, span: WindowSpan) -> StoreSlots:
        clock = self.days(store_id).store.clock
        return StoreSlots(store_id, clock, grains.slots(*map(from_millis, span), "15m", clock))


def _generations_by_day(
    readings: Sequence[FamilyReading], slots: StoreSlots
) -> dict[date, FamilyGenerations]:
    return {
        day: tuple((reading.family.name, reading.published.get(day)) for reading in readings)
        for day in slot_days(slots)
    }


def _is_covered(cell: Cell, readings: Sequence[FamilyReading]) -> bool:
    """Whether generations cover the window in all families, and nothing newer was read instead."""
    start = cell.slot.start
    # A speed layer row that has counted more events is served in place of a generation's row.
    serving = (reading.published.get(start.date()) for reading in readings)
    return cell.sources == {"batch"} and all(served and served.covers(start) for served in serving)
