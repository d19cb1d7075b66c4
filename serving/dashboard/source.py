"""The data source of the pages: the same queries as the API, in the same process."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from schemas import loader
from schemas.report import ReportShape
from serving.alerts.handling import ActionWriter, AlertActions
from serving.alerts.inquiry import AlertInquiry
from serving.dashboard.figures import Figures, Stretch, figures, main_currency
from serving.dashboard.inside import METRIC, PersonsInside, persons_inside, quarter_hours
from serving.dashboard.period import Period
from serving.merge.offload import computed
from serving.merge.views import ViewReader
from serving.query import catalogue
from serving.query.answer import Query, QueryEngine
from serving.query.known_stores import KnownStores
from serving.query.stores import Store, StoreRegistry
from serving.reports.comparison import ComparedValue, StoreSpan, Withheld
from serving.reports.report import ReportEngine, StoreReport
from tally.settings import Settings

# The metrics by which all stores are compared, from the street to the till.
COMPARED = (
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
        store = self.store
        return (
            store.store_id if store.name == store.store_id else f"{store.name} ({store.store_id})"
        )


def newest_day(stores: Iterable[StoreChoice]) -> date | None:
    """The last day on which any of the stores had events; None if none had."""
    return max((choice.last_day for choice in stores if choice.last_day), default=None)


class FigureSource:
    """Reads stores and figures from one set of views."""

    def __init__(
        self, settings: Settings, views: ViewReader, writer: ActionWriter | None = None
    ) -> None:
        self.alerts = AlertInquiry.of(settings, views)
        self.actions = AlertActions.of(settings, self.alerts, writer)
        self._registry = StoreRegistry.load(settings)
        self._stores = KnownStores(views, self._registry)
        self._answerer = QueryEngine(views, self._registry, settings)
        self._reports = ReportEngine(self._answerer)
        # A comparison of many stores costs many seconds of processor time, so only one store is
        # compared at a time, across all requests.
        self._comparing = asyncio.Semaphore()

    async def stores(self) -> list[StoreChoice]:
        """Every store with events or in the stores file; numeric ids in numeric order.

        Raises ViewsUnreachable.
        """
        # Sorted by length first, so that store 9 comes before store 10.
        entries = sorted(
            await self._stores.entries(),
            key=lambda entry: (len(entry["store_id"]), entry["store_id"]),
        )
        return [
            StoreChoice(self._registry.store(entry["store_id"]), entry["last_day"])
            for entry in entries
        ]

    async def figures(self, store: Store, period: Period) -> Figures:
        """The figures of one store's period against the one before. Raises ViewsUnreachable."""
        now, before = await asyncio.gather(
            self._stretch(store, period), self._stretch(store, period.moved(-1))
        )
        # The currency is chosen by this period and used for both, so that they can be compared.
        currency = main_currency(now.found, store.currency)
        return await computed(
            len(now.found) + len(before.found), figures, now, before, store.clock, currency
        )

    async def inside(self, store: Store, period: Period) -> PersonsInside:
        """Persons inside on the last day of the period. Raises ViewsUnreachable."""
        quarters = [quarter_hours(store, period.last)]
        [answer] = await self._answerer.read(
            Query(catalogue.metric(METRIC), quarters, (), None),
        )
        return persons_inside(store, period.last, answer.found)

    async def reports(self, store: Store, period: Period) -> list[StoreReport | Withheld]:
        """Every report of the catalogue, in its order. Raises ViewsUnreachable."""
        shapes = [*loader.reports().values()]
        return await self._reports.reports(shapes, _span(store, period))

    async def report(
        self, shape: ReportShape, store: Store, period: Period
    ) -> StoreReport | Withheld:
        """One report. Raises ViewsUnreachable."""
        # The method for several reports returns a withheld report instead of raising an error.
        (found,) = await self._reports.reports([shape], _span(store, period))
        return found

    async def comparisons(self, store: Store, period: Period) -> list[ComparedValue | Withheld]:
        """The metrics of COMPARED, in their order. Raises ViewsUnreachable."""
        async with self._comparing:
            (found,) = await self._reports.comparisons(COMPARED, [_span(store, period)])
        return found

    async def _stretch(self, store: Store, period: Period) -> Stretch:
        quarters = period.quarter_hours(store)
        # Every metric of the page is computed from the parts of this metric's family.
        [answer] = await self._answerer.read(
            Query(catalogue.metric("revenue"), [quarters], (), None),
        )
        return Stretch(period.days, answer.found, answer.through)


def _span(store: Store, period: Period) -> StoreSpan:
    return StoreSpan(store.store_id, store.clock, period.of_store(store))
