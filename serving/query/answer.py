"""The answer to a question about a metric, and its quality.

Both layers are read, merged and summed up.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from math import prod
from operator import mul
from typing import Any

from serving.merge.gaps import read_gaps
from serving.merge.offload import computed
from serving.merge.reading import Pointers, StoreDays, read_pointers, read_pointers_as_of
from serving.merge.served import FamilyReading
from serving.merge.views import ViewReader
from serving.query import cells
from serving.query.catalogue import Metric
from serving.query.coverage import CoverageRule, Roster
from serving.query.dimensions import (
    Values,
    ValuesEach,
    read_values,
    refuse_too_many,
    refuse_unnoted,
    splits_of,
    values_each,
)
from serving.query.instants import format_instant
from serving.query.items import ItemReader
from serving.query.measured import read_measured
from serving.query.quality import caveats, gap_shown, quality_of, through_of_all
from serving.query.question import MOST_ENTRIES, StoreSlots, days_of
from serving.query.rows import Rows, rows_of
from serving.query.small_cells import SmallCells
from serving.query.speed_reach import SpeedReach, speed_reach
from serving.query.stock_reading import StockReader
from serving.query.stores import Store, StoreRegistry
from serving.query.told import ToldFamilies, seen_values, withheld
from serving.query.watching import Watching
from tally.errors import AnswerMoved, BadQuery
from tally.families import CURRENCY, Family
from tally.key_periods import days_around
from tally.partitions import partition_of
from tally.settings import Settings
from tally.windows import window_starts

Generations = dict[str, int]


@dataclass(frozen=True)
class Query:
    """One page of a question: the metric, its stretches by store, its dimensions.

    `as_of` is the instant whose answer is wanted, `values` are those of the dimensions in the whole
    question, and `limit` is the largest number of rows of a page. A question of several pages also
    has its UTC days (`pages`) and the generations that the earlier pages saw (`seen`).
    """

    metric: Metric
    stores: Sequence[StoreSlots]
    by: Sequence[str]
    as_of: datetime | None
    values: Values = field(default_factory=dict)
    pages: tuple[date, date] | None = None
    seen: Mapping[str, int] | None = None
    limit: int = MOST_ENTRIES

    def __post_init__(self) -> None:
        # Without its resets a level would be a plain sum, which looks like a valid number.
        assert not self.metric.is_level or all(store.resets for store in self.stores)
        assert not self.metric.stock or all(store.counted for store in self.stores)


@dataclass(frozen=True)
class StoreAnswer:
    """One store's cells, and what was read for it by family."""

    asked: StoreSlots
    found: list[cells.Cell]
    readings: Sequence[FamilyReading]
    told: ToldFamilies = field(default_factory=dict)

    def rows(self, metric: Metric, splits: Sequence[cells.Split]) -> Rows:
        """The rows of its cells by field, without the values of small cells."""
        rows = rows_of(metric, self.found, self.asked.zone, splits)
        return withheld(self.told, metric, self.found, splits, rows)

    @property
    def rows_read(self) -> int:
        """The number of rows that were read, over all its families."""
        return sum(reading.rows for reading in self.readings)

    @property
    def through(self) -> datetime | None:
        """The instant up to which its records are counted; None where it is not known."""
        return through_of_all(self.readings, days_of(self.asked))


class QueryEngine:
    """Answers from one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self.coverage = CoverageRule.of(settings)
        self.items = ItemReader(views)
        self.stock = StockReader(views, settings, self.items)
        self._small_cells = SmallCells(settings.privacy_smallest_cell, registry)

    async def answer(self, query: Query) -> tuple[dict[str, Any], Generations]:
        """The answer with `series`, and the generations by family for the next page to compare.

        Raises ViewsUnreachable; BadQuery for several currencies, or too many rows; AnswerMoved when
        an earlier page saw another generation.
        """
        pointers, generations = await self._consistent_pointers(query)
        gaps, speed, *stores = await asyncio.gather(
            self._gaps(query),
            self._speed(pointers, query.as_of),
            *(self._store(store, pointers) for store in query.stores),
        )
        # Rows and not stretches: one stretch of a thousand queues is as much work as many of one.
        rows = sum(len(piece.found) * piece.asked.rows_each + piece.rows_read for piece in stores)
        body = await computed(rows, self._body, query, pointers, stores)
        return {**body, "gaps": gaps, "speed": speed, "series": body.pop("series")}, generations

    async def read(self, query: Query) -> list[StoreAnswer]:
        """Each store's cells, for readers in this process that treat final and restated alike.

        Raises ViewsUnreachable.
        """
        pointers = [replace(pointer, firsts={}) for pointer in await self._all_pointers(query)]
        return await asyncio.gather(*(self._store(store, pointers) for store in query.stores))

    def roster(self, store: Store, families: Iterable[Family]) -> Roster:
        """The store's sensors that record the families."""
        # Under small cells no sensors of people's devices: what one heard may reveal who was there.
        return Roster.of(
            store, [family for family in families if not self._small_cells.covers(family)]
        )

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
        through = [store.through for store in stores]
        known = [instant for instant in through if instant is not None]
        each = [self._values_each(query, store) for store in stores]
        # Counted before they are built: two dimensions of thousands are millions of pairs.
        splits = (prod(map(len, values.values())) for values in each)
        rows = sum(map(mul, (len(store.found) for store in stores), splits))
        # A question of a single stretch may come without the registered values (of_one_stretch()).
        if query.pages is None and len(stores) == len(stores[0].found) == 1:
            refuse_too_many(rows, stores[0].asked.store_id, query.by, query.limit)
        refuse_unnoted(rows, query.limit)
        shown = [
            store.rows(query.metric, splits_of(values))
            for store, values in zip(stores, each, strict=True)
        ]
        return {
            "currency": self._currency(query, stores),
            **quality_of([cell for store in stores for cell in store.found], query.metric, shown),
            "through": format_instant(min(known)) if known and len(known) == len(through) else None,
            **caveats(pointers, [(store.asked.store_id, store.readings) for store in stores]),
            "series": [
                {"store": store.asked.store_id, "rows": rows_shown}
                for store, rows_shown in zip(stores, shown, strict=True)
            ],
        }

    async def _consistent_pointers(self, query: Query) -> tuple[list[Pointers], Generations]:
        """The pointers, and the highest generation by family over all pages.

        The generation is read before the pointers: a flip in between shows in the pointers, or at
        worst makes the next page raise AnswerMoved needlessly.
        """
        newest: list[int] = [0] * len(query.metric.families)
        if query.pages and query.as_of is None:
            newest = await asyncio.gather(
                *(self._views.newest(family, *query.pages) for family in query.metric.families)
            )
        pointers = await self._all_pointers(query)
        seen = {
            pointer.family.name: max(before, pointer.newest)
            for before, pointer in zip(newest, pointers, strict=True)
        }
        if query.as_of is None and query.seen is not None and query.seen != seen:
            raise AnswerMoved("a rebuild has published since the first page; begin anew at `next`")
        return pointers, seen

    async def _all_pointers(self, query: Query) -> list[Pointers]:
        # Read once for all stores, so that all of them are of one moment.
        read = (self._small_cells.read_for(query.metric.families, slots) for slots in query.stores)
        days = sorted({day for store in read for day in days_of(store)})
        return await asyncio.gather(
            *(self._pointers(family, days, query.as_of) for family in query.metric.families)
        )

    async def _pointers(
        self, family: Family, days: Sequence[date], as_of: datetime | None
    ) -> Pointers:
        if as_of is None:
            near = self._near(days) if family.reading is not None else ()
            patience = self._settings.final_patience_seconds
            return await read_pointers(self._views, family, days, patience, near)
        return await read_pointers_as_of(self._views, family, days, as_of)

    async def _store(self, store: StoreSlots, pointers: Sequence[Pointers]) -> StoreAnswer:
        known = self._registry.store(store.store_id)
        read = self._small_cells.read_for([pointer.family for pointer in pointers], store)
        wanted = StoreDays(
            store.store_id,
            self._partition(store.store_id),
            days_of(read),
            known.days_behind(self._settings.key_days),
        )
        readings = await asyncio.gather(
            *(read_measured(self._views, known, pointer, wanted) for pointer in pointers)
        )
        starts = window_starts(*store.span)
        size = len(starts) + sum(reading.rows for reading in readings)
        roster = self.roster(known, [measured.family for measured in readings])
        watching = Watching(known, roster, self.coverage)
        shown = await computed(size, self._small_cells.told, read, readings)
        sold = await self.stock.sold(store, readings)
        found = await computed(size, watching.cells, store, readings, starts, sold)
        return StoreAnswer(store, found, readings, shown)

    def _near(self, days: Sequence[date]) -> list[date]:
        """The days around these whose key periods may reach into them."""
        own = {*days}
        return [day for day in days_around(days, self._settings.key_days) if day not in own]

    def _partition(self, store_id: str) -> int:
        return partition_of(store_id, self._settings.partitions)

    async def _gaps(self, query: Query) -> list[dict[str, Any]]:
        """The gaps whose records are missing from the stores' numbers in the asked span."""
        span = (
            min(store.span.start for store in query.stores),
            max(store.span.end for store in query.stores),
        )
        partitions = {self._partition(store.store_id) for store in query.stores}
        tolerance = self._settings.future_tolerance_seconds
        families = query.metric.families
        found = await read_gaps(self._views, families, span, partitions, tolerance)
        return [gap_shown(gap) for gap in found]

    async def _speed(
        self, pointers: Sequence[Pointers], as_of: datetime | None
    ) -> SpeedReach | None:
        """The progress of the speed layer; None in a question about the past."""
        return None if as_of is not None else await speed_reach(self._views, pointers)

    def _currency(self, query: Query, stores: Sequence[StoreAnswer]) -> str | None:
        """The one currency of the whole question.

        A register may lag behind a row, so this page's cells are looked at too.
        """
        if not query.metric.is_money or CURRENCY in query.by:
            return None
        found = (cell for store in stores for cell in store.found)
        seen = cells.values_seen(found, query.metric.families, CURRENCY)
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

    def _values_each(self, query: Query, store: StoreAnswer) -> ValuesEach:
        store_id = store.asked.store_id
        seen = {
            dimension: seen_values(store.told, store.found, query.metric.families, dimension)
            for dimension in query.by
        }
        if CURRENCY in seen and not (
            seen[CURRENCY] or query.values.get(CURRENCY, {}).get(store_id)
        ):
            # Where nothing was sold, the row is in the store's own currency.
            seen[CURRENCY] = {self._own_currency(store.asked)}
        return values_each(query.by, store_id, query.values, seen)
