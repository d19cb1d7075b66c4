"""What the page asks: the same questions as the API, in the same process."""

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

# What all stores are compared by: from the street to the till.
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
    """A store that the page can show, and the last day on which it had events."""

    store: Store
    last_day: date | None

    @property
    def label(self) -> str:
        """Its name, and its id where that is another."""
        store = self.store
        return (
            store.store_id if store.name == store.store_id else f"{store.name} ({store.store_id})"
        )


def newest_day(stores: Iterable[StoreChoice]) -> date | None:
    """The last day on which one of the stores had events."""
    return max((one.last_day for one in stores if one.last_day), default=None)


class FigureSource:
    """Stores and figures from one set of views."""

    def __init__(
        self, settings: Settings, views: ViewReader, writer: ActionWriter | None = None
    ) -> None:
        self.alerts = AlertInquiry.of(settings, views)
        self.actions = AlertActions.of(settings, self.alerts, writer)
        self._registry = StoreRegistry.load(settings)
        self._stores = KnownStores(views, self._registry)
        self._answerer = QueryEngine(views, self._registry, settings)
        self._reports = ReportEngine(self._answerer)
        # Many stores are many seconds of the processor, whoever asks for them: one at a time.
        self._comparing = asyncio.Semaphore()

    async def stores(self) -> list[StoreChoice]:
        """Every store with events or in the stores file; numbers in their order.

        Raises ViewsUnreachable.
        """
        # By length first, so that store 9 comes before store 10.
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
        # By this period: one currency for both, or there is nothing to compare.
        currency = main_currency(now.found, store.currency)
        return await computed(
            len(now.found) + len(before.found), figures, now, before, store.clock, currency
        )

    async def inside(self, store: Store, period: Period) -> PersonsInside:
        """Persons inside on the last day of the period. Raises ViewsUnreachable."""
        asked = [quarter_hours(store, period.last)]
        [answer] = await self._answerer.read(
            Query(catalogue.metric(METRIC), asked, (), None),
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
        # As one of several, for that tells what is withheld in place of raising it.
        (found,) = await self._reports.reports([shape], _span(store, period))
        return found

    async def comparisons(self, store: Store, period: Period) -> list[ComparedValue | Withheld]:
        """The metrics of COMPARED, in their order. Raises ViewsUnreachable."""
        async with self._comparing:
            (found,) = await self._reports.comparisons(COMPARED, [_span(store, period)])
        return found

    async def _stretch(self, store: Store, period: Period) -> Stretch:
        asked = period.quarter_hours(store)
        # Every metric of the page is computed from the parts of this one's family.
        [answer] = await self._answerer.read(
            Query(catalogue.metric("revenue"), [asked], (), None),
        )
        return Stretch(period.days, answer.found, answer.through)


def _span(store: Store, period: Period) -> StoreSpan:
    return StoreSpan(store.store_id, store.clock, period.of_store(store))
