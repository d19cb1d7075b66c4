"""The answer to a question about a metric, and what it is worth.

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

    It also has the instant whose answer is wanted, the values that the dimensions have in the whole
    question, where that has several pages its UTC days and what the earlier pages saw, and the most
    rows of a page.
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
        # Without its resets a level would be a sum, and look like a number.
        assert not self.metric.is_level or all(store.resets for store in self.stores)
        assert not self.metric.stock or all(store.counted for store in self.stores)


@dataclass(frozen=True)
class StoreAnswer:
    """One store's cells, and what was read of it by family."""

    asked: StoreSlots
    found: list[cells.Cell]
    readings: Sequence[FamilyReading]
    told: ToldFamilies = field(default_factory=dict)

    def rows(self, metric: Metric, splits: Sequence[cells.Split]) -> Rows:
        """The rows of its cells by field, without what small cells keep back."""
        rows = rows_of(metric, self.found, self.asked.zone, splits)
        return withheld(self.told, metric, self.found, splits, rows)

    @property
    def rows_read(self) -> int:
        """Of all its families."""
        return sum(reading.rows for reading in self.readings)

    @property
    def through(self) -> datetime | None:
        """How far its records are counted."""
        return through_of_all(self.readings, days_of(self.asked))


class QueryEngine:
    """Answers from one set of views."""

    def __init__(self, views: ViewReader, registry: StoreRegistry, settings: Settings) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self.coverage = CoverageRule.of(settings)
        self.items = ItemReader(views)
        self.stock = StockReader(views, settings, self.items)
        self._small_cells = SmallCells(settings.privacy_smallest_cell, registry)

    async def answer(self, asked: Query) -> tuple[dict[str, Any], Generations]:
        """The answer with `series`, and for the page after it the generation seen by family.

        Raises ViewsUnreachable; BadQuery for several currencies, or too many rows; AnswerMoved when
        a page before it saw another generation.
        """
        pointers, generations = await self._consistent_pointers(asked)
        gaps, speed, *stores = await asyncio.gather(
            self._gaps(asked),
            self._speed(pointers, asked.as_of),
            *(self._store(store, pointers) for store in asked.stores),
        )
        # Rows and not stretches: one stretch of a thousand queues is as much work as many of one.
        rows = sum(len(one.found) * one.asked.rows_each + one.rows_read for one in stores)
        body = await computed(rows, self._body, asked, pointers, stores)
        return {**body, "gaps": gaps, "speed": speed, "series": body.pop("series")}, generations

    async def read(self, asked: Query) -> list[StoreAnswer]:
        """Each store's cells, for a reader in this process that does not tell final from restated.

        Raises ViewsUnreachable.
        """
        pointers = [replace(one, firsts={}) for one in await self._all_pointers(asked)]
        return await asyncio.gather(*(self._store(store, pointers) for store in asked.stores))

    def roster(self, store: Store, families: Iterable[Family]) -> Roster:
        """The store's sensors that tell of the families."""
        # With small cells none of people's: who was there may be known by whom it has heard.
        return Roster.of(store, [one for one in families if not self._small_cells.covers(one)])

    async def values(
        self, metric: Metric, stores: Sequence[StoreSlots], by: Sequence[str], most: int
    ) -> Values:
        """The values of the dimensions, and of money its currencies: at most `most` for each store.

        Raises ViewsUnreachable; BadQuery for more than one question may list.
        """
        wanted = [*by, CURRENCY] if metric.is_money else by
        # Of currencies alone two are one too many.
        return await read_values(self._views, metric.families, wanted, stores, most if by else 2)

    def _body(
        self, asked: Query, pointers: Sequence[Pointers], stores: Sequence[StoreAnswer]
    ) -> dict[str, Any]:
        through = [store.through for store in stores]
        known = [instant for instant in through if instant is not None]
        each = [self._values_each(asked, store) for store in stores]
        # Counted before they are made: two dimensions of thousands are millions of pairs.
        splits = (prod(map(len, values.values())) for values in each)
        rows = sum(map(mul, (len(store.found) for store in stores), splits))
        # A question of one stretch alone may be asked without what is noted (of_one_stretch()).
        if asked.pages is None and len(stores) == len(stores[0].found) == 1:
            refuse_too_many(rows, stores[0].asked.store_id, asked.by, asked.limit)
        refuse_unnoted(rows, asked.limit)
        shown = [
            store.rows(asked.metric, splits_of(values))
            for store, values in zip(stores, each, strict=True)
        ]
        return {
            "currency": self._currency(asked, stores),
            **quality_of([cell for store in stores for cell in store.found], asked.metric, shown),
            "through": format_instant(min(known)) if known and len(known) == len(through) else None,
            **caveats(pointers, [(store.asked.store_id, store.readings) for store in stores]),
            "series": [
                {"store": store.asked.store_id, "rows": of_store}
                for store, of_store in zip(stores, shown, strict=True)
            ],
        }

    async def _consistent_pointers(self, asked: Query) -> tuple[list[Pointers], Generations]:
        """The pointers, and the highest generation by family over all pages.

        It is read before them: what flips in between shows in the pointers, or makes the next page
        say so without need.
        """
        newest: list[int] = [0] * len(asked.metric.families)
        if asked.pages and asked.as_of is None:
            newest = await asyncio.gather(
                *(self._views.newest(family, *asked.pages) for family in asked.metric.families)
            )
        pointers = await self._all_pointers(asked)
        seen = {
            one.family.name: max(before, one.newest)
            for before, one in zip(newest, pointers, strict=True)
        }
        if asked.as_of is None and asked.seen is not None and asked.seen != seen:
            raise AnswerMoved("a rebuild has published since the first page; begin anew at `next`")
        return pointers, seen

    async def _all_pointers(self, asked: Query) -> list[Pointers]:
        # Read once for all stores: they are of one moment then.
        read = (self._small_cells.read_for(asked.metric.families, one) for one in asked.stores)
        days = sorted({day for store in read for day in days_of(store)})
        return await asyncio.gather(
            *(self._pointers(family, days, asked.as_of) for family in asked.metric.families)
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
        read = self._small_cells.read_for([one.family for one in pointers], store)
        wanted = StoreDays(
            store.store_id,
            self._partition(store.store_id),
            days_of(read),
            known.days_behind(self._settings.key_days),
        )
        readings = await asyncio.gather(
            *(read_measured(self._views, known, one, wanted) for one in pointers)
        )
        starts = window_starts(*store.span)
        size = len(starts) + sum(reading.rows for reading in readings)
        roster = self.roster(known, [one.family for one in readings])
        watching = Watching(known, roster, self.coverage)
        told = await computed(size, self._small_cells.told, read, readings)
        sold = await self.stock.sold(store, readings)
        found = await computed(size, watching.cells, store, readings, starts, sold)
        return StoreAnswer(store, found, readings, told)

    def _near(self, days: Sequence[date]) -> list[date]:
        """Days around these, of whose key periods they may have a part."""
        asked = {*days}
        return [day for day in days_around(days, self._settings.key_days) if day not in asked]

    def _partition(self, store_id: str) -> int:
        return partition_of(store_id, self._settings.partitions)

    async def _gaps(self, asked: Query) -> list[dict[str, Any]]:
        """The gaps that the asked stores' numbers of the asked span lack."""
        span = (
            min(store.span.start for store in asked.stores),
            max(store.span.end for store in asked.stores),
        )
        partitions = {self._partition(store.store_id) for store in asked.stores}
        tolerance = self._settings.future_tolerance_seconds
        families = asked.metric.families
        found = await read_gaps(self._views, families, span, partitions, tolerance)
        return [gap_shown(gap) for gap in found]

    async def _speed(
        self, pointers: Sequence[Pointers], as_of: datetime | None
    ) -> SpeedReach | None:
        """How far the speed layer has read; of the past it says nothing."""
        return None if as_of is not None else await speed_reach(self._views, pointers)

    def _currency(self, asked: Query, stores: Sequence[StoreAnswer]) -> str | None:
        """The one currency of the whole question.

        A register may lag behind a row, so this page's cells are asked too.
        """
        if not asked.metric.is_money or CURRENCY in asked.by:
            return None
        found = (cell for store in stores for cell in store.found)
        seen = cells.values_seen(found, asked.metric.families, CURRENCY)
        seen = seen.union(*asked.values.get(CURRENCY, {}).values())
        if len(seen) > 1:
            detail = (
                f"by: the answer holds {', '.join(sorted(seen))}, which do not add up;"
                " ask with by=currency"
            )
            raise BadQuery("by", detail, (CURRENCY,))
        return seen.pop() if seen else self._own_currency(asked.stores[0])

    def _own_currency(self, store: StoreSlots) -> str:
        return self._registry.store(store.store_id).currency

    def _values_each(self, asked: Query, store: StoreAnswer) -> ValuesEach:
        store_id = store.asked.store_id
        seen = {
            dimension: seen_values(store.told, store.found, asked.metric.families, dimension)
            for dimension in asked.by
        }
        if CURRENCY in seen and not (
            seen[CURRENCY] or asked.values.get(CURRENCY, {}).get(store_id)
        ):
            # Where nothing was sold, the row is of the money that would be taken.
            seen[CURRENCY] = {self._own_currency(store.asked)}
        return values_each(asked.by, store_id, asked.values, seen)
