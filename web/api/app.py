"""The HTTP API: queries are checked, answered from the views, and encoded.

Every error is answered with a problem document.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
import structlog
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse

from alerting.health.gauges import AlertFacts, AlertFactSource
from alerting.health.service import RuleHealthService, UnevaluatedCounter
from alerting.queries.actions import ActionWriter, AlertActions
from alerting.queries.alerts import AlertQueryService
from alerting.simulate.service import SimulationService
from alerting.stream.feed import Feed, TopicFeed
from runtime.http.openapi import DocumentedApp
from runtime.http.work_pools import ANSWERS
from runtime.registry.sources import FAMILIES
from serving.engine.answer import QueryEngine
from serving.engine.explain import explain_window
from serving.metrics import catalogue
from serving.questions.known_stores import KnownStores
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from tally.time.instants import format_instant
from web.api.answers import described
from web.api.requests import cursor, problems
from web.api.requests.bounds import RequestBounds
from web.api.requests.pages import Pages
from web.api.requests.parameters import ExplainQuery, MetricQuery, PageQuery
from web.api.routes.alert_action_routes import add_alert_action_routes
from web.api.routes.alert_counters import AlertCounters, Counters
from web.api.routes.alert_routes import AlertRoutes, add_alert_routes
from web.api.routes.calendar_routes import add_calendar_routes
from web.api.routes.report_routes import add_report_routes
from web.api.routes.rule_health_routes import RuleHealthRoutes, add_rule_health_routes
from web.api.routes.rule_routes import RuleRoutes, add_rule_routes
from web.api.routes.sensor_routes import add_sensor_routes
from web.api.routes.telemetry import RequestCounts, Telemetry

log = structlog.get_logger()
READY_SECONDS = 5.0  # half of a statement's timeout, because the prober has a deadline too


@dataclass(frozen=True)
class AlertBrokers:
    """The Kafka parts of the alert routes, apart from the feed and the desk.

    `fact_source`: reads what the brokers know about the alert services; without one its gauges are
    left out. `writer`: stores actions on alerts; None: in the topics of the settings.
    """

    fact_source: AlertFactSource | None = None
    writer: ActionWriter | None = None


@dataclass(frozen=True)
class Api:
    """The parts that the routes work with."""

    views: ViewReader
    settings: Settings
    stores: KnownStores
    pages: Pages

    async def explain(self, query: ExplainQuery) -> dict[str, Any]:
        """Both layers' rows of one window and which side won, by field of the answer.

        Raises BadQuery, UnknownName, ViewsUnreachable.
        """
        # Checked first, so that an unknown store is a 404 and none of its windows is read.
        await self.stores.check([query.store])
        registry = self.pages.registry
        return await explain_window(self.views, query.question, registry, self.settings)

    async def ready(self) -> dict[str, Any]:
        """The readiness of the API: `ready`, and each check by name with its result.

        A master that is behind only makes answers provisional, so it does not change `ready`.
        """
        try:
            current = await asyncio.wait_for(self._current(), READY_SECONDS)
        except (ViewsUnreachable, TimeoutError) as error:
            # A TimeoutError has no text of its own.
            detail = str(error) or f"no answer within {READY_SECONDS:.0f} s"
            log.warning("views unreachable", path="/readyz", reason=str(error.__cause__ or detail))
            return {"ready": False, "checks": {"views": {"ok": False, "detail": detail}}}
        return {
            "ready": True,
            "checks": {
                "views": {"ok": True, "detail": "tables and pointers can be read"},
                "master": self._master(current),
            },
        }

    async def _current(self) -> datetime | None:
        """The last instant at which every family's master was current; None without any."""
        await self.views.check()
        instants = await asyncio.gather(
            *(self.views.master_current(family) for family in FAMILIES.values())
        )
        return min((at for at in instants if at is not None), default=None)

    def _master(self, current_at: datetime | None) -> dict[str, Any]:
        if current_at is None:
            return {
                "ok": False,
                "detail": "the master ingest has never said how far it is; no answer is final",
            }
        patience = timedelta(seconds=self.settings.final_patience_seconds)
        is_behind = datetime.now(UTC) - current_at > patience
        effect = "; no answer is final" if is_behind else ""
        return {
            "ok": not is_behind,
            "detail": f"had read everything at {format_instant(current_at)}{effect}",
        }


def create_app(
    settings: Settings,
    views: ViewReader,
    feed: Feed | None = None,
    desk: SimulationService | None = None,
    brokers: AlertBrokers | None = None,
) -> FastAPI:
    """The application over these views, the alert feed, and the rules' desk.

    By default, feed and desk are those of Kafka.
    """
    registry = StoreRegistry.load(settings)
    stores = KnownStores(views, registry)
    api = Api(
        views, settings, stores, Pages(registry, stores, QueryEngine(views, registry, settings))
    )
    # There is no /docs page, because its scripts would be loaded from another host.
    app = DocumentedApp(
        described.SHAPES,
        title="Tally",
        summary="Retail metrics by store and quarter hour.",
        version="1",
        docs_url=None,
        redoc_url=None,
    )
    counts = RequestCounts()
    app.add_middleware(RequestBounds)
    app.add_middleware(Telemetry, counts=counts)
    problems.install(app)
    inquiry = AlertQueryService.from_settings(settings, views)
    brokers = brokers or AlertBrokers()
    desk = desk or SimulationService.from_settings(settings, views)
    facts = brokers.fact_source.facts if brokers.fact_source else AlertFacts
    health = RuleHealthService(desk.rules, facts, views, settings, desk.now)
    alerts = AlertCounters(inquiry, stores, brokers.fact_source)
    unjudged = UnevaluatedCounter(health, stores) if brokers.fact_source else None
    _add_state_routes(app, api, Counters(counts, alerts, unjudged))
    _add_list_routes(app, api)
    _add_metric_routes(app, api)
    add_report_routes(app, api.pages)
    add_calendar_routes(app, api.pages)
    add_sensor_routes(app, api.pages)
    add_alert_action_routes(app, AlertActions.from_settings(settings, inquiry, brokers.writer))
    add_alert_routes(app, AlertRoutes(inquiry, stores, feed or TopicFeed(settings)))
    add_rule_routes(app, RuleRoutes(desk, stores))
    add_rule_health_routes(app, RuleHealthRoutes(health, stores))
    return app


def _add_state_routes(app: FastAPI, api: Api, counters: Counters) -> None:
    @app.get("/healthz", summary="The process answers", responses=described.HEALTH)
    async def healthz() -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz", summary="The views can be read", responses=described.READINESS)
    async def readyz() -> Response:
        state = await api.ready()
        return _json(state, 200 if state["ready"] else 503)

    @app.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=PlainTextResponse,
        response_description="the counters as text",
    )
    async def metrics() -> Response:
        return Response(await counters.text(), media_type="text/plain; version=0.0.4")


def _add_list_routes(app: FastAPI, api: Api) -> None:
    @app.get(
        "/v1/stores",
        summary="Stores with events, and those of the stores file",
        responses=described.STORES,
    )
    async def stores(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        return _json(_page("stores", "store_id", await api.stores.entries(), (query, request)))

    @app.get("/v1/metrics", summary="The metric catalogue", responses=described.METRICS)
    async def metric_list(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        return _json(_page("metrics", "id", catalogue.entries(), (query, request)))


def _add_metric_routes(app: FastAPI, api: Api) -> None:
    @app.get(
        "/v1/metrics/{metric_id}",
        summary="Values of a metric by store and stretch of time",
        responses=described.METRIC,
    )
    async def metric(
        metric_id: Annotated[str, Path(description="id of the catalogue")],
        query: Annotated[MetricQuery, Query()],
        request: Request,
    ) -> Response:
        body = await api.pages.page(metric_id, query, request)
        # A page has up to 10,000 rows, and encoding them in the event loop would delay all other
        # answers.
        return await ANSWERS.run(_json, body)

    @app.get(
        "/v1/explain",
        summary="Why one window is answered as it is",
        responses=described.EXPLANATION,
    )
    async def explain(query: Annotated[ExplainQuery, Query()]) -> Response:
        return _json(await api.explain(query))


def _page(
    name: str,
    key: str,
    entries: list[dict[str, Any]],
    request_parts: tuple[PageQuery, Request],
) -> dict[str, Any]:
    """One page of the entries after the cursor; `entries` ascend by their key."""
    query, request = request_parts
    last = cursor.decode(query.after, cursor.EntryCursor)
    # Pages are cut by key instead of by count, so that an entry added since the last page does not
    # shift the others.
    remaining = [entry for entry in entries if last is None or entry[key] > last.entry]
    page = remaining[: query.limit]
    has_more = len(remaining) > len(page)
    following = cursor.EntryCursor(page[-1][key]) if has_more else None
    address = (
        cursor.address(request.url.path, request.query_params.multi_items(), following)
        if following
        else None
    )
    return {name: page, "next": address}


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")
