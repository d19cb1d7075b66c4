"""The data source of the pages: the same queries as the API, in the same process."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from alerting.queries.alerts import ActionWriter, AlertActions, AlertQueryService
from runtime.http.work_pools import run_in_thread_if_large
from schemas.metric import ReportShape
from serving.answer import Query, QueryEngine
from serving.questions import catalogue
from serving.questions.known_stores import KnownStores
from serving.questions.stores import Store, StoreRegistry
from serving.reports.comparison import ComparedValue, StoreSpan, WithheldValue
from serving.reports.report import ReportEngine, StoreReport
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.figures import (
    OCCUPANCY,
    Figures,
    Occupancy,
    PeriodCells,
    compute_figures,
    compute_occupancy,
    main_currency,
    quarter_hours,
)

# The metrics by which all stores are compared, from the street to the till.
COMPARED_METRICS = (
    "outside_traffic",
    "in_store_traffic",
    "average_stay",
    "revenue",
    "transactions",
    "conversion",
)


@dataclass(frozen=True)
class StoreChoice:
    """A store that a page can show, and the last day on which it had events."""

    store: Store
    last_day: date | None

    @property
    def label(self) -> str:
        """The store's name, followed by its id if that differs."""
        name, store_id = self.store.name, self.store.store_id
        return store_id if name == store_id else f"{name} ({store_id})"


@dataclass(frozen=True)
class PageSelection:
    """What the address of a page selects: one of the stores, and a period."""

    stores: Sequence[StoreChoice]
    chosen: StoreChoice
    period: Period

    @property
    def by_id(self) -> dict[str, StoreChoice]:
        """The stores by their ids."""
        return {choice.store.store_id: choice for choice in self.stores}


def newest_day(stores: Iterable[StoreChoice]) -> date | None:
    """The last day on which any of the stores had events; None if none had."""
    return max((choice.last_day for choice in stores if choice.last_day), default=None)


class FigureSource:
    """Reads stores and figures from one set of views."""

    def __init__(
        self, settings: Settings, views: ViewReader, writer: ActionWriter | None = None
    ) -> None:
        self.alerts = AlertQueryService.from_settings(settings, views)
        self.actions = AlertActions.from_settings(settings, self.alerts, writer)
        self._registry = StoreRegistry.load(settings)
        self._stores = KnownStores(views, self._registry)
        self._query_engine = QueryEngine(views, self._registry, settings)
        self._reports = ReportEngine(self._query_engine)
        # A comparison of many stores costs many seconds of processor time, so only one store is
        # compared at a time, across all requests.
        self._comparison_lock = asyncio.Semaphore()

    async def stores(self) -> list[StoreChoice]:
        """Every store with events or in the stores file, by id. Raises ViewsUnreachable."""
        # Sorted by length first, so that store 9 comes before store 10.
        last_days = {entry["store_id"]: entry["last_day"] for entry in await self._stores.entries()}
        store_ids = sorted(last_days, key=lambda store_id: (len(store_id), store_id))
        return [StoreChoice(self._registry.store(id_), last_days[id_]) for id_ in store_ids]

    async def figures(self, store: Store, period: Period) -> Figures:
        """The figures of one store's period against the one before. Raises ViewsUnreachable."""
        now, before = await asyncio.gather(
            self._read_cells(store, period), self._read_cells(store, period.shift(-1))
        )
        # The currency is chosen by this period and used for both, so that they can be compared.
        currency, size = (
            main_currency(now.cells, store.currency),
            len(now.cells) + len(before.cells),
        )
        work = partial(compute_figures, now, before, store.clock, currency)
        return await run_in_thread_if_large(size, work)

    async def occupancy(self, store: Store, period: Period) -> Occupancy:
        """Persons inside on the last day of the period. Raises ViewsUnreachable."""
        quarters = [quarter_hours(store, period.last)]
        query = Query(catalogue.metric(OCCUPANCY), quarters, (), None)
        [answer] = await self._query_engine.read(query)
        return compute_occupancy(store, period.last, answer.result_cells)

    async def reports(
        self, shapes: Sequence[ReportShape], store: Store, period: Period
    ) -> list[StoreReport | WithheldValue]:
        """These reports; a withheld one is returned as such. Raises ViewsUnreachable."""
        return await self._reports.reports(shapes, _span(store, period))

    async def comparisons(
        self, store: Store, period: Period
    ) -> list[ComparedValue | WithheldValue]:
        """The metrics of COMPARED, in their order. Raises ViewsUnreachable."""
        async with self._comparison_lock:
            (found,) = await self._reports.comparisons(COMPARED_METRICS, [_span(store, period)])
        return found

    async def _read_cells(self, store: Store, period: Period) -> PeriodCells:
        # Every metric of the page is computed from the parts of this metric's family.
        query = Query(catalogue.metric("revenue"), [period.quarter_hours(store)], (), None)
        [answer] = await self._query_engine.read(query)
        return PeriodCells(period.days, answer.result_cells, answer.through)


def _span(store: Store, period: Period) -> StoreSpan:
    return StoreSpan(store.store_id, store.clock, period.span(store.clock))
