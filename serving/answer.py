"""The answer to a page of a question about a metric: both layers read, merged and summed up."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from math import prod
from operator import mul
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from runtime.http.work_pools import run_in_thread_if_large
from serving.cells import cells, dimensions
from serving.cells.coverage import SlotCoverage
from serving.cells.dimensions import Values
from serving.disclosure import DisclosurePolicies, dimension_values, suppress_rows
from serving.items import ItemReader
from serving.merge import reading as layers
from serving.merge.reading import Pointers
from serving.merge.served import UNSETTLED, FamilyReading, common_instant, through_instant
from serving.questions.catalogue import Metric
from serving.questions.question import MAX_ENTRIES, StoreSlots, slot_days
from serving.questions.stores import StoreRegistry
from serving.stock import StockReader
from serving.storage.views import ViewReader
from serving.store_reader import StoreReader
from tally.config.settings import Settings
from tally.errors import AnswerChanged, BadQuery
from tally.families.family import CURRENCY, Family
from tally.time.day_clock import days_around
from tally.time.instants import format_instant
from tally.time.windows import window_starts

# Fields by name.
Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Query:
    """One page of a question: the metric, its stretches by store, its dimensions.

    `as_of` is the instant whose answer is wanted, `values` are those of the dimensions in the whole
    question, and `limit` is the largest number of rows of a page. A question of several pages has
    its UTC days (`page_days`) and the generations that earlier pages saw (`earlier_generations`).
    """

    metric: Metric
    stores: Sequence[StoreSlots]
    by: Sequence[str]
    as_of: datetime | None
    values: Values = field(default_factory=dict)
    page_days: tuple[date, date] | None = None
    earlier_generations: Mapping[str, int] | None = None
    limit: int = MAX_ENTRIES

    def __post_init__(self) -> None:
        # Without its resets a level would be a plain sum, which looks like a valid number.
        assert not self.metric.is_level or all(store.resets for store in self.stores)
        assert not self.metric.stock or all(store.stock_baseline for store in self.stores)


# By family, the highest generation that an answer has seen.
Generations = dict[str, int]


@dataclass(frozen=True)
class StoreAnswer:
    """One store's cells, and what was read for it by family."""

    request: StoreSlots
    result_cells: list[cells.Cell]
    readings: Sequence[FamilyReading]
    disclosure: DisclosurePolicies = field(default_factory=dict)

    def rows(self, metric: Metric, splits: Sequence[cells.Split]) -> Rows:
        """The rows of its cells by field, without the values of small cells."""
        rows = _format_rows(metric, self.result_cells, self.request.zone, splits)
        return suppress_rows(self.disclosure, metric, self.result_cells, splits, rows)

    @property
    def through(self) -> datetime | None:
        """The instant up to which its records are counted; None where it is not known."""
        days = slot_days(self.request)
        return common_instant(through_instant(reading, days) for reading in self.readings)


class QueryEngine:
    """Answers from one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self.reader = StoreReader(views, registry, settings)
        self.items = ItemReader(views)
        self.stock = StockReader(views, settings, self.items)

    async def answer(self, query: Query) -> tuple[dict[str, Any], Generations]:
        """The answer with `series`, and the generations by family for the next page to compare.

        Raises ViewsUnreachable; BadQuery for several currencies, or too many rows; AnswerChanged
        when an earlier page saw another generation.
        """
        pointers, generations = await self._consistent_pointers(query)
        gaps, speed, *stores = await asyncio.gather(
            self._gaps(query),
            layers.read_speed_progress(self._views, pointers),
            *(self._store(store, pointers) for store in query.stores),
        )
        if query.as_of is not None:
            # After the rows: a sweep says so before it removes any.
            await self._refuse_swept(query, query.as_of)
        # Rows and not stretches: one stretch of a thousand queues is as much work as many of one.
        sizes = (len(piece.result_cells) * piece.request.rows_per_slot for piece in stores)
        rows = sum(sizes) + sum(reading.rows for piece in stores for reading in piece.readings)
        body = await run_in_thread_if_large(rows, self._body, query, pointers, stores)
        return {**body, "gaps": gaps, "speed": speed, "series": body.pop("series")}, generations

    async def read(self, query: Query) -> list[StoreAnswer]:
        """Each store's cells; final and restated windows are alike. Raises ViewsUnreachable."""
        found = await self._all_pointers(query)
        pointers = [replace(pointer, first_coverages={}) for pointer in found]
        return await asyncio.gather(*(self._store(store, pointers) for store in query.stores))

    async def values(
        self, metric: Metric, stores: Sequence[StoreSlots], by: Sequence[str], most: int
    ) -> Values:
        """At most `most` values of each dimension and store; for money, currencies too.

        Raises ViewsUnreachable; BadQuery for more than one question may list.
        """
        wanted = [*by, CURRENCY] if metric.is_money else by
        # A question that lists only currencies is refused at the second one, so two are enough.
        most = most if by else 2
        return await dimensions.read_values(self._views, metric.families, wanted, stores, most)

    def _body(
        self, query: Query, pointers: Sequence[Pointers], stores: Sequence[StoreAnswer]
    ) -> dict[str, Any]:
        through = common_instant(store.through for store in stores)
        each = [self._merge_values(query, store) for store in stores]
        # Counted before they are built: two dimensions of thousands are millions of pairs.
        splits = (prod(map(len, values.values())) for values in each)
        rows = sum(map(mul, (len(store.result_cells) for store in stores), splits))
        # Such a question may come without the registered values (drop_excess_values()).
        if query.page_days is None and len(stores) == len(stores[0].result_cells) == 1:
            dimensions.refuse_too_many(rows, stores[0].request.store_id, query.by, query.limit)
        dimensions.refuse_unregistered(rows, query.limit)
        shown = [
            store.rows(query.metric, dimensions.build_splits(values))
            for store, values in zip(stores, each, strict=True)
        ]
        found = [cell for store in stores for cell in store.result_cells]
        return {
            "currency": self._currency(query, stores),
            **_answer_quality(found, query.metric, shown),
            "through": format_instant(through) if through else None,
            **_caveats(pointers, stores),
            "series": [
                {"store": store.request.store_id, "rows": rows_shown}
                for store, rows_shown in zip(stores, shown, strict=True)
            ],
        }

    async def _consistent_pointers(self, query: Query) -> tuple[list[Pointers], Generations]:
        # The generation is read before the pointers: a flip in between shows in the pointers, or at
        # worst makes the next page raise AnswerChanged needlessly.
        newest: list[int] = [0] * len(query.metric.families)
        if query.page_days and query.as_of is None:
            newest = await asyncio.gather(
                *(self._views.newest(family, *query.page_days) for family in query.metric.families)
            )
        pointers = await self._all_pointers(query)
        seen = {
            pointer.family.name: max(before, pointer.newest)
            for before, pointer in zip(newest, pointers, strict=True)
        }
        if query.as_of is None and query.earlier_generations not in (None, seen):
            reason = "a rebuild has published since the first page; begin again at `next`"
            raise AnswerChanged(reason)
        return pointers, seen

    async def _all_pointers(self, query: Query) -> list[Pointers]:
        # Read once for all stores, so that all of them are of one moment.
        days = self._utc_days(query)
        return await asyncio.gather(
            *(self._pointers(family, days, query.as_of) for family in query.metric.families)
        )

    def _utc_days(self, query: Query) -> list[date]:
        read = (self.reader.utc_days(query.metric.families, slots) for slots in query.stores)
        return sorted({day for store_days in read for day in store_days})

    async def _refuse_swept(self, query: Query, as_of: datetime) -> None:
        days = self._utc_days(query)
        marks = await asyncio.gather(
            *(self._views.swept_until(family, days) for family in query.metric.families)
        )
        swept = max((mark for mark in marks if mark is not None), default=as_of)
        if swept > as_of:
            oldest = format_instant(swept)
            raise BadQuery(
                "as_of",
                f"as_of: answers before {oldest} are not kept any more; ask for a later instant"
                " (TALLY_AS_OF_DAYS says for how long they are)",
            )

    async def _pointers(
        self, family: Family, days: Sequence[date], as_of: datetime | None
    ) -> Pointers:
        if as_of is not None:
            return await layers.read_past_pointers(self._views, family, days, as_of)
        # The days around these whose key periods may reach into them.
        reach = days_around(days, self._settings.key_days) if family.reading else ()
        near = sorted({*reach}.difference(days))
        patience = self._settings.final_patience_seconds
        return await layers.read_pointers(self._views, family, days, patience, near)

    async def _store(self, store: StoreSlots, pointers: Sequence[Pointers]) -> StoreAnswer:
        readings = await asyncio.gather(
            *(self.reader.read_measured(pointer, store) for pointer in pointers)
        )
        size = len(window_starts(*store.span)) + sum(reading.rows for reading in readings)
        sold = await self.stock.read_sales(store, readings)
        found = await run_in_thread_if_large(size, self.reader.sum_windows, store, readings, sold)
        return StoreAnswer(store, found.cells, readings, found.disclosure)

    async def _gaps(self, query: Query) -> list[dict[str, Any]]:
        starts, ends = zip(*(store.span for store in query.stores), strict=True)
        partitions = {self.reader.partition(store.store_id) for store in query.stores}
        tolerance = self._settings.future_tolerance_seconds
        span, families = (min(starts), max(ends)), query.metric.families
        found = await layers.read_gaps(self._views, families, span, partitions, tolerance)
        return [gap.to_fields(format_instant) for gap in found]

    def _currency(self, query: Query, stores: Sequence[StoreAnswer]) -> str | None:
        if not query.metric.is_money or CURRENCY in query.by:
            return None
        # A register may lag behind a row, so this page's cells are looked at too.
        found = (cell for store in stores for cell in store.result_cells)
        seen = cells.values_in_cells(found, query.metric.families, CURRENCY)
        seen = seen.union(*query.values.get(CURRENCY, {}).values())
        if len(seen) > 1:
            names = ", ".join(sorted(seen))
            detail = f"by: the answer holds {names}, which do not add up; ask with by=currency"
            raise BadQuery("by", detail, (CURRENCY,))
        own = self._registry.store(query.stores[0].store_id).currency
        return seen.pop() if seen else own

    def _merge_values(self, query: Query, store: StoreAnswer) -> dimensions.ValuesByDimension:
        """The values of each dimension that a stretch has rows of, ascending; None without any."""
        store_id, families = store.request.store_id, query.metric.families
        each: dict[str, list[str | None]] = {}
        # Keyed by dimension, so one that is named twice is listed once.
        for name in query.by:
            seen = dimension_values(store.disclosure, store.result_cells, families, name)
            seen |= {*query.values.get(name, {}).get(store_id, ())}
            if name == CURRENCY and not seen:
                # Where nothing was sold, the row is in the store's own currency.
                seen = {self._registry.store(store_id).currency}
            each[name] = [*sorted(seen)] or [None]
        return each


def _answer_quality(
    found: Sequence[cells.Cell], metric: Metric, shown: Iterable[Rows]
) -> dict[str, Any]:
    # The weakest source and status of all cells decide. `shown` are their rows; a suppressed one
    # among them makes the source `mixed`, which reveals no presence.
    status = cells.weakest_status(status for cell in found for status in cell.statuses)
    source = cells.common_source(source for cell in found for source in cell.sources)
    watch = SlotCoverage()
    for cell in found:
        watch.rule = cell.sensor_coverage.rule
        watch.join(cell.sensor_coverage)
    # Each row has to be covered, not their total: the others do not make up for one silent hour.
    is_enough = all(cell.sensor_coverage.is_enough for cell in found)
    is_hidden = any(row.get("suppressed") for rows in shown for row in rows)
    # The cells of a level have hours of the day in common.
    is_shared = watch.share is not None and not metric.is_level
    return {
        "source": "mixed" if is_hidden else source,
        "status": status,
        "complete": status not in UNSETTLED and is_enough,
        **({"coverage": watch.share} if is_shared else {}),
    }


def _caveats(pointers: Iterable[Pointers], stores: Iterable[StoreAnswer]) -> dict[str, Any]:
    behind = [since for pointer in pointers if (since := pointer.master_behind_since)]
    numbering = [
        {
            "store": store.request.store_id,
            "till": finding.till_id,
            "day": finding.day,
            "conflicts": finding.conflicts,
            "records": finding.records,
        }
        for store in stores
        for reading in store.readings
        for finding in reading.findings
    ]
    return {
        "master_behind_since": format_instant(min(behind)) if behind else None,
        "numbering": numbering,
    }


def _format_rows(
    metric: Metric, found: Sequence[cells.Cell], zone: ZoneInfo, splits: Sequence[cells.Split]
) -> Rows:
    # Formatted once: each boundary is the end of one stretch and the start of the next.
    instants = {boundary for cell in found for boundary in cell.slot}
    texts = {instant: format_instant(instant, zone) for instant in instants}
    empty: dict[tuple[object, ...], Rows] = {}
    rows: Rows = []
    for cell in found:
        start, end = texts[cell.slot.start], texts[cell.slot.end]
        if cell.parts or cell.events:
            rows += _cell_rows(metric, cell, splits, (start, end))
            continue
        # Stretches without sales are most of an answer, and differ only by their time.
        quality = (frozenset(cell.sources), frozenset(cell.statuses), cell.sensor_coverage.share)
        if quality not in empty:
            empty[quality] = _cell_rows(metric, cell, splits, (start, end))
        rows += [{**row, "start": start, "end": end} for row in empty[quality]]
    return rows


def _cell_rows(
    metric: Metric,
    cell: cells.Cell,
    splits: Sequence[cells.Split],
    instants: tuple[str, str],
) -> Rows:
    found = zip(splits, cells.split_values(metric, cell, splits), strict=True)
    rows = ((split, cells.format_row(cell, values, instants)) for split, values in found)
    # A row names its split unless that is the whole.
    return [{**row, "by": dict(split)} if split else row for split, row in rows]
