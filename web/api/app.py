"""The HTTP API: queries are checked, and answered from the views or with a problem document."""

from dataclasses import dataclass

from fastapi import FastAPI

from alerting.health.service import RuleHealthService, UnevaluatedCounter
from alerting.health.watch import AlertFacts, AlertFactSource
from alerting.queries.alerts import ActionWriter, AlertActions, AlertQueryService
from alerting.simulate.service import SimulationService
from alerting.stream.feed import Feed, TopicFeed
from runtime.http.answers import DocumentedApp
from serving.answer import QueryEngine
from serving.questions.known_stores import KnownStores
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from web.api.alerts.alerts import add_alert_action_routes, add_alert_routes
from web.api.alerts.rules import add_rule_health_route, add_rule_routes
from web.api.alerts.simulations import add_simulation_route
from web.api.alerts.stream import AlertStreams, add_stream_route
from web.api.numbers.explain import add_explain_route
from web.api.numbers.metrics import add_metric_routes
from web.api.numbers.pages import Pages
from web.api.numbers.reports import add_report_routes
from web.api.numbers.stores import add_sensor_routes, add_store_routes
from web.api.requests import problems
from web.api.state import AlertCounters, RequestCounts, Telemetry, add_state_routes


@dataclass(frozen=True)
class AlertBrokers:
    """The Kafka parts of the alert routes, apart from the feed and the simulations.

    `fact_source`: reads what the brokers know about the alert services; without one its gauges are
    left out. `writer`: stores actions on alerts; None: in the topics of the settings.
    """

    fact_source: AlertFactSource | None = None
    writer: ActionWriter | None = None


def create_app(
    settings: Settings,
    views: ViewReader,
    feed: Feed | None = None,
    simulations: SimulationService | None = None,
    brokers: AlertBrokers | None = None,
) -> FastAPI:
    """The application over these views; by default, feed and simulations are those of Kafka."""
    registry = StoreRegistry.load(settings)
    stores = KnownStores(views, registry)
    pages = Pages(registry, stores, QueryEngine(views, registry, settings))
    # There is no /docs page, because its scripts would be loaded from another host.
    summary = "Retail metrics by store and quarter hour."
    app = DocumentedApp(title="Tally", summary=summary, version="1", docs_url=None, redoc_url=None)
    counts = RequestCounts()
    app.add_middleware(problems.RequestBounds)
    app.add_middleware(Telemetry, counts=counts)
    problems.install(app)
    inquiry = AlertQueryService.from_settings(settings, views)
    brokers = brokers or AlertBrokers()
    simulations = simulations or SimulationService.from_settings(settings, views)
    facts = brokers.fact_source.facts if brokers.fact_source else AlertFacts
    health = RuleHealthService(simulations.rules, facts, views, settings, simulations.now)
    unevaluated = UnevaluatedCounter(health, stores) if brokers.fact_source else None
    alerts = AlertCounters(inquiry, stores, brokers.fact_source, unevaluated)
    add_state_routes(app, views, settings, counts, alerts)
    add_store_routes(app, pages)
    add_metric_routes(app, pages)
    add_explain_route(app, pages, views, settings)
    add_report_routes(app, pages)
    add_sensor_routes(app, pages)
    add_alert_action_routes(app, AlertActions.from_settings(settings, inquiry, brokers.writer))
    add_stream_route(app, AlertStreams(inquiry, stores, feed or TopicFeed(settings)))
    add_alert_routes(app, inquiry, stores)
    add_rule_routes(app, simulations.rules)
    add_simulation_route(app, simulations, stores)
    add_rule_health_route(app, health, stores)
    return app
