"""The data source of the rule pages: the rules, and what a rule calls for in a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.health.gauges import AlertFacts, AlertFactSource
from alerting.health.service import RuleHealthService
from alerting.health.store import StoreHealth
from alerting.queries.alerts import AlertQueryService, AlertSpan, ListedAlert
from alerting.rules.rule import Rule, RuleVersion
from alerting.simulate.findings import SimulatedStore
from alerting.simulate.service import SimulationRequest, SimulationService
from serving.questions.stores import Store
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import BadQuery
from tally.time.instants import to_millis
from web.dashboard.shared.period import Period


class RuleFigure(NamedTuple):
    """A rule in one store over some days.

    `simulated`: the result as if the rule had always been in force; None if it is not judged, or
    is not about the store. `published`: the current states of its alerts in these days, including
    retracted ones.
    """

    span: WindowSpan
    simulated: SimulatedStore | None
    published: tuple[ListedAlert, ...]


@dataclass(frozen=True)
class RuleFigureSource:
    """Reads rules from one desk, and alerts from one set of views."""

    simulation_service: SimulationService
    alert_queries: AlertQueryService
    health_service: RuleHealthService

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        views: ViewReader,
        desk: SimulationService,
        watch: AlertFactSource | None = None,
    ) -> "RuleFigureSource":
        """The desk's rules with their health; without `watch` no rule is known to be judged."""
        facts = watch.facts if watch else AlertFacts
        health = RuleHealthService(desk.rules, facts, views, settings, desk.now)
        return cls(desk, AlertQueryService.from_settings(settings, views), health)

    async def health(self, rule_id: str, store: Store) -> StoreHealth | None:
        """Whether the rule can be judged in the store; None if it is not in force or not about it.

        Raises UnknownName, ViewsUnreachable.
        """
        page = await self.health_service.read_page(rule_id, [store.store_id], "", 1)
        return page.stores[0] if page.stores else None

    async def rules(self) -> list[RuleVersion]:
        """The newest version of each rule, by id. Raises ViewsUnreachable."""
        chains = (await self.simulation_service.rules.read()).versions
        return [chain[-1] for _, chain in sorted(chains.items())]

    async def versions(self, rule_id: str) -> Sequence[RuleVersion]:
        """The versions of one rule, ascending. Raises UnknownName, ViewsUnreachable."""
        return await self.simulation_service.rules.versions(rule_id)

    async def load_figure(
        self, rule_id: str, store: Store, period: Period, draft: Rule | None = None
    ) -> RuleFigure:
        """The rule in a store, or the draft in its place. Raises UnknownName, ViewsUnreachable."""
        start, end = period.store_span(store)
        span = WindowSpan(to_millis(start), to_millis(end))
        # Only one store is simulated, because all stores of a rule would take minutes.
        stores = frozenset([store.store_id])
        wish = SimulationRequest(rule_id, span, stores, draft, with_values=True)
        try:
            page = await self.simulation_service.simulate_page(wish)
        except BadQuery:
            # A rule of a kind that is not judged yet still has its versions shown.
            return RuleFigure(span, None, ())
        now = datetime.now(UTC)
        published = await self.alert_queries.read_windows(
            store.store_id, AlertSpan(start, end), now, days_late=None
        )
        own = [alert for alert in published if alert.rule_id == rule_id]
        own.sort(key=lambda alert: (alert.window.start, alert.edge, alert.occurrence))
        simulated = page.stores[0] if page.stores else None
        return RuleFigure(span, simulated, tuple(own))
