"""The answer to a question about a metric, and its quality.

Both layers are read, merged and summed up.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from math import prod
from operator import mul
from typing import Any

from runtime.http.work_pools import run_in_thread_if_large
from serving.cells import cells
from serving.cells.dimensions import (
    Values,
    ValuesByDimension,
    build_splits,
    merge_values,
    read_values,
    refuse_too_many,
    refuse_unregistered,
)
from serving.cells.quality import (
    Rows,
    answer_quality,
    caveats,
    common_through_instant,
    format_rows,
)
from serving.disclosure import DisclosurePolicies, dimension_values, suppress_rows
from serving.engine.page_query import Query
from serving.engine.speed_progress import SpeedProgress, read_speed_progress
from serving.engine.store_reader import StoreReader
from serving.merge.reading import Pointers, read_gaps, read_past_pointers, read_pointers
from serving.merge.served import FamilyReading, common_instant
from serving.metrics.catalogue import Metric
from serving.questions.question import StoreSlots, slot_days
from serving.questions.stores import StoreRegistry
from serving.stock.items import ItemReader
from serving.stock.stock_reading import StockReader
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import AnswerChanged, BadQuery
from tally.families.family import CURRENCY, Family
from tally.time.instants import format_instant
from tally.time.key_periods import days_around
from tally.time.windows import window_starts

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
        rows = format_rows(metric, self.result_cells, self.request.zone, splits)
        return suppress_rows(self.disclosure, metric, self.result_cells, splits, rows)

    @property
    def rows_read(self) -> int:
        """The number of rows that were read, over all its families."""
        return sum(reading.rows for reading in self.readings)

    @property
    def through(self) -> datetime | None:
        """The instant up to which its records are counted; None where it is not known."""
        return common_through_instant(self.readings, slot_days(self.request))


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
            self._speed(pointers, query.as_of),
            *(self._store(store, pointers) for store in query.stores),
        )
        # Rows and not stretches: one stretch of a thousand queues is as much work as many of one.
        rows = sum(
            len(piece.result_cells) * piece.request.rows_per_slot + piece.rows_read
            for piece in stores
        )
        body = await run_in_thread_if_large(rows, self._body, query, pointers, stores)
        return {**body, "gaps": gaps, "speed": speed, "series": body.pop("series")}, generations

    async def read(self, query: Query) -> list[StoreAnswer]:
        """Each store's cells, for readers in this process that treat final and restated alike.

        Raises ViewsUnreachable.
        """
        found = await self._all_pointers(query)
        pointers = [replace(pointer, first_coverages={}) for pointer in found]
        return await asyncio.gather(*(self._store(store, pointers) for store in query.stores))

    async def values(
        self, metric: Metric, stores: Sequence[StoreSlots], by: Sequence[str], most: int
    ) -> Values:
        """The values of the dimensions, at most `most` for each store; for money, currencies too.

        Raises ViewsUnreachable; BadQuery for more than one question may list.
        """
        wanted = [*by, CURRENCY] if metric.is_money else by
        # A question that lists only currencies is refused at the second one, so two are enough.
        return await read_values(self._views, metric.families, wanted, stores, most if by else 2)

    def _body(
        self, query: Query, pointers: Sequence[Pointers], stores: Sequence[StoreAnswer]
    ) -> dict[str, Any]:
        through = common_instant(store.through for store in stores)
        each = [self._merge_values(query, store) for store in stores]
        # Counted before they are built: two dimensions of thousands are millions of pairs.
        splits = (prod(map(len, values.values())) for values in each)
        rows = sum(map(mul, (len(store.result_cells) for store in stores), splits))
        # A question of a single stretch may come without the registered values
        # (drop_excess_values()).
        if query.page_days is None and len(stores) == len(stores[0].result_cells) == 1:
            refuse_too_many(rows, stores[0].request.store_id, query.by, query.limit)
        refuse_unregistered(rows, query.limit)
        shown = [
            store.rows(query.metric, build_splits(values))
            for store, values in zip(stores, each, strict=True)
        ]
        return {
            "currency": self._currency(query, stores),
            **answer_quality(
                [cell for store in stores for cell in store.result_cells], query.metric, shown
            ),
            "through": format_instant(through) if through else None,
            **caveats(pointers, [(store.request.store_id, store.readings) for store in stores]),
            "series": [
                {"store": store.request.store_id, "rows": rows_shown}
                for store, rows_shown in zip(stores, shown, strict=True)
            ],
        }

    async def _consistent_pointers(self, query: Query) -> tuple[list[Pointers], Generations]:
        """The pointers, and the highest generation by family over all pages.

        The generation is read before the pointers: a flip in between shows in the pointers, or at
        worst makes the next page raise AnswerChanged needlessly.
        """
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
            raise AnswerChanged(
                "a rebuild has published since the first page; begin again at `next`"
            )
        return pointers, seen

    async def _all_pointers(self, query: Query) -> list[Pointers]:
        # Read once for all stores, so that all of them are of one moment.
        read = (self.reader.utc_days(query.metric.families, slots) for slots in query.stores)
        days = sorted({day for store_days in read for day in store_days})
        return await asyncio.gather(
            *(self._pointers(family, days, query.as_of) for family in query.metric.families)
        )

    async def _pointers(
        self, family: Family, days: Sequence[date], as_of: datetime | None
    ) -> Pointers:
        if as_of is None:
            # The days around these whose key periods may reach into them.
            reach = days_around(days, self._settings.key_days) if family.reading else ()
            near = sorted({*reach}.difference(days))
            patience = self._settings.final_patience_seconds
            return await read_pointers(self._views, family, days, patience, near)
        return await read_past_pointers(self._views, family, days, as_of)

    async def _store(self, store: StoreSlots, pointers: Sequence[Pointers]) -> StoreAnswer:
        readings = await asyncio.gather(
            *(self.reader.read_measured(pointer, store) for pointer in pointers)
        )
        size = len(window_starts(*store.span)) + sum(reading.rows for reading in readings)
        sold = await self.stock.read_sales(store, readings)
        found = await run_in_thread_if_large(size, self.reader.sum_windows, store, readings, sold)
        return StoreAnswer(store, found.cells, readings, found.disclosure)

    async def _gaps(self, query: Query) -> list[dict[str, Any]]:
        """The gaps whose records are missing from the stores' numbers in the asked span."""
        span = (
            min(store.span.start for store in query.stores),
            max(store.span.end for store in query.stores),
        )
        partitions = {self.reader.partition(store.store_id) for store in query.stores}
        tolerance = self._settings.future_tolerance_seconds
        families = query.metric.families
        found = await read_gaps(self._views, families, span, partitions, tolerance)
        return [gap.to_fields(format_instant) for gap in found]

    async def _speed(
        self, pointers: Sequence[Pointers], as_of: datetime | None
    ) -> SpeedProgress | None:
        """The progress of the speed layer; None in a question about the past."""
        return None if as_of is not None else await read_speed_progress(self._views, pointers)

    def _currency(self, query: Query, stores: Sequence[StoreAnswer]) -> str | None:
        """The one currency of the whole question.

        A register may lag behind a row, so this page's cells are looked at too.
        """
        if not query.metric.is_money or CURRENCY in query.by:
            return None
        found = (cell for store in stores for cell in store.result_cells)
        seen = cells.values_in_cells(found, query.metric.families, CURRENCY)
        seen = seen.union(*query.values.get(CURRENCY, {}).values())
        if len(seen) > 1:
            detail = (
                f"by: the answer holds {', '.join(sorted(seen))}, which do not add up;"
                " ask with by=currency"
            )
            raise BadQuery("by", detail, (CURRENCY,))
        return seen.pop() if seen else self._own_currency(query.stores[0])

    def _own_currency(self, store: StoreSlots) -> str:
        return self._registry.store(store.store_id).currency

    def _merge_values(self, query: Query, store: StoreAnswer) -> ValuesByDimension:
        store_id = store.request.store_id
        seen = {
            dimension: dimension_values(
                store.disclosure, store.result_cells, query.metric.families, dimension
            )
            for dimension in query.by
        }
        if CURRENCY in seen and not (
            seen[CURRENCY] or query.values.get(CURRENCY, {}).get(store_id)
        ):
            # Where nothing was sold, the row is in the store's own currency.
            seen[CURRENCY] = {self._own_currency(store.request)}
        return merge_values(query.by, store_id, query.values, seen)
