"""The routes of the pages; store, report and period are in the address, so views can be shared."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import wraps
from typing import Any

from fastapi import FastAPI
from nicegui import Client, ui

from alerting.health.gauges import AlertFacts, AlertFactSource
from alerting.health.service import RuleHealthService
from alerting.queries.actions import ActionWriter
from alerting.queries.alerts import AlertQueryService
from alerting.queries.rule_editing import RuleEditService
from alerting.simulate.service import SimulationService
from alerting.stream.feed import Feed
from schemas import loader
from serving.storage.dead_letters import LetterReader
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from web.dashboard.admission import Admission, add_api_not_found, add_page_not_found
from web.dashboard.alerts.inbox import show_alert, show_inbox
from web.dashboard.refused import RefusedSource, show_refused
from web.dashboard.rules.editor import EditorContext, show_editor
from web.dashboard.rules.figure import RuleFigureSource
from web.dashboard.rules.pages import show_rule, show_rules
from web.dashboard.shared.addresses import parse_period, store_address
from web.dashboard.shared.frame import (
    Frame,
    begin,
    html,
    log_unreachable,
    say,
    say_unreachable,
    show_not_found,
)
from web.dashboard.shared.markup import element
from web.dashboard.shared.source import FigureSource, PageSelection, newest_day
from web.dashboard.stores.overview import show_overview
from web.dashboard.stores.report_page import report_links, show_report
from web.dashboard.stores.store_page import show_store

# Long enough for three months of a large store on a busy machine; NiceGUI's default limit is three
# seconds.
MAX_SECONDS = 30.0
_NAME = element("h1", "Tally", class_="t-name")
# A NiceGUI page starts with an inline script and compiles its components' templates in the browser:
# without `unsafe-inline` and `unsafe-eval` it stays empty.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

PageFunction = Callable[..., Awaitable[None]]


@dataclass(frozen=True)
class LiveSources:
    """The sources behind Kafka: the alert feed, the simulations, dead letters, actions, the watch.

    `feed` None: no alerts arrive live; `fact_source` None: nothing is watched. The other sources,
    if None, are created for the brokers of the settings.
    """

    feed: Feed | None = None
    simulations: SimulationService | None = None
    letters: LetterReader | None = None
    writer: ActionWriter | None = None
    fact_source: AlertFactSource | None = None


@dataclass(frozen=True)
class Dashboard:
    """The sources of the pages, and what each page has before its own content."""

    source: FigureSource
    rules: RuleFigureSource

    async def select(
        self,
        store: str = "",
        days: str = "",
        until: str = "",
        newest: date | None = None,
    ) -> PageSelection | None:
        """What an address selects, by default the first store and its newest days.

        `newest`: the last day by default, if not that of the store. None if there is nothing to
        show, and then the page says why.
        """
        begin()
        try:
            stores = await self.source.stores()
        except ViewsUnreachable as error:
            log_unreachable(error)
            html(_NAME)
            say_unreachable()
            return None
        if not stores:
            html(_NAME)
            say(
                "No store has sent anything yet",
                "Receipts show here seconds after they arrive; try `tally replay`.",
                retry=True,
            )
            return None
        named = [choice for choice in stores if choice.store.store_id == store]
        chosen = named[0] if named else stores[0]
        if store and not named:
            period = parse_period(until, days, chosen.last_day)
            show_not_found(
                Frame("report", "", period, store_address, chosen, stores),
                f"There is no store {store[:64]}",
                "No event of it has arrived yet. Choose another one above.",
            )
            return None
        return PageSelection(stores, chosen, parse_period(until, days, newest or chosen.last_day))


def _add_page(path: str) -> Callable[[PageFunction], PageFunction]:
    """Decorator of a function that draws the page at the path; its parameters are the address's."""

    def add(draw: PageFunction) -> PageFunction:
        @ui.page(path, title="Tally", language="en-US", response_timeout=MAX_SECONDS)
        @wraps(draw)
        async def draw_page(*args: Any, **kwargs: Any) -> None:
            with ui.element("div").classes("t-page"):
                await draw(*args, **kwargs)

        return draw

    return add


def mount(
    app: FastAPI, settings: Settings, views: ViewReader, live: LiveSources | None = None
) -> None:
    """Add the pages to the application, and below them the files that they load.

    They are at `/`, `/stores`, `/report/{id}`, `/alerts`, `/alerts/{id}`, `/refused`, `/rules`,
    `/rules/{id}`, `/rules/{id}/edit` and `/new-rule`. The last four use the simulations.
    """
    live = live or LiveSources()
    simulations = live.simulations or SimulationService.from_settings(settings, views)
    # Without a watch no rule is known to be evaluated.
    facts = live.fact_source.facts if live.fact_source else AlertFacts
    rules = RuleFigureSource(
        simulations.rules,
        simulations.simulate_page,
        AlertQueryService.from_settings(settings, views),
        RuleHealthService(simulations.rules, facts, views, settings, simulations.now),
    )
    pages = Dashboard(FigureSource(settings, views, live.writer), rules)
    _add_alert_pages(pages, live.feed)
    _add_refused_page(pages, RefusedSource(views, live.letters or LetterReader(settings)))
    _add_rule_pages(pages)
    may_apply = settings.rule_edits == "allow"
    _add_editors(pages, EditorContext(RuleEditService(simulations.rules), rules, may_apply))
    _add_store_pages(pages)
    # Registered before the pages, which take every remaining path.
    add_api_not_found(app)
    app.add_middleware(Admission, pages=[*Client.page_routes.values()])
    add_page_not_found()
    ui.run_with(app, title="Tally", show_welcome_message=False)


def _add_store_pages(pages: Dashboard) -> None:
    @_add_page("/")
    async def store_page(store: str = "", days: str = "", until: str = "") -> None:
        if selection := await pages.select(store, days, until):
            await show_store(pages.source, selection)

    @_add_page("/report/{report_id}")
    async def report_page(
        report_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        selection = await pages.select(store, days, until)
        if selection is None:
            return
        shape = loader.reports().get(report_id)
        if shape is not None:
            await show_report(pages.source, shape, selection)
            return
        chosen, period = selection.chosen, selection.period
        show_not_found(
            Frame("report", "", period, store_address, chosen, selection.stores),
            f"There is no report {report_id[:64]}",
            "These are the reports that there are.",
            report_links(chosen.store.store_id, period),
        )

    @_add_page("/stores")
    async def overview_page(days: str = "", until: str = "", page: str = "") -> None:
        if selection := await pages.select():
            period = parse_period(until, days, newest_day(selection.stores))
            await show_overview(pages.source, replace(selection, period=period), page)


def _add_alert_pages(pages: Dashboard, feed: Feed | None) -> None:
    @_add_page("/alerts")
    async def inbox_page(store: str = "", days: str = "", until: str = "") -> None:
        if selection := await pages.select(store, days, until, _today()):
            await show_inbox(pages.source, feed, selection, store)

    @_add_page("/alerts/{alert_id}")
    async def alert_page(alert_id: str) -> None:
        if selection := await pages.select(newest=_today()):
            await show_alert(pages.source, selection, alert_id)


def _add_refused_page(pages: Dashboard, refused: RefusedSource) -> None:
    @_add_page("/refused")
    async def refusals_page(store: str = "") -> None:
        if selection := await pages.select(store, newest=_today()):
            await show_refused(refused, selection, store)


def _add_rule_pages(pages: Dashboard) -> None:
    @_add_page("/rules")
    async def rules_page() -> None:
        if selection := await pages.select():
            await show_rules(pages.rules, selection)

    @_add_page("/rules/{rule_id}")
    async def rule_page(
        rule_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        # A week, because the chart cannot show more quarter hours apart.
        if selection := await pages.select(store, days or "7", until):
            await show_rule(pages.rules, rule_id, selection)


def _add_editors(pages: Dashboard, place: EditorContext) -> None:
    @_add_page("/rules/{rule_id}/edit")
    async def edit_page(
        rule_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        if selection := await pages.select(store, days or "7", until):
            await show_editor(place, rule_id, selection)

    @_add_page("/new-rule")
    async def new_page() -> None:
        if selection := await pages.select(days="7"):
            await show_editor(place, None, selection)


def _today() -> date:
    # Alerts are raised now, even if the newest event is years old.
    return datetime.now(UTC).date()
