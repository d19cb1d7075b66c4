"""The routes of the pages; store, report and period are in the address, so views can be shared."""

from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import FastAPI
from nicegui import Client, ui

from alerting.health.gauges import AlertFactSource
from alerting.queries.actions import ActionWriter
from alerting.queries.rule_editing import RuleEditService
from alerting.simulate.service import SimulationService
from alerting.stream.feed import Feed
from schemas import loader
from serving.storage.dead_letters import LetterReader
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from web.dashboard.admission import Admission
from web.dashboard.alerts.pages import show_alert, show_inbox
from web.dashboard.not_found import add_api_not_found, add_page_not_found
from web.dashboard.refused_page import RefusedSource, show_refused
from web.dashboard.rules.editor import EditorContext, show_editor
from web.dashboard.rules.pages import show_rule, show_rules
from web.dashboard.rules.source import RuleFigureSource
from web.dashboard.shared.addresses import store_address
from web.dashboard.shared.frame import (
    Frame,
    begin,
    html,
    log_unreachable,
    say,
    say_unreachable,
    show_frame,
)
from web.dashboard.shared.period import Period, parse_period
from web.dashboard.shared.source import FigureSource, StoreChoice, newest_day
from web.dashboard.stores.overview_page import show_overview
from web.dashboard.stores.report_page import report_links, show_report
from web.dashboard.stores.store_page import show_store

# Long enough for three months of a large store on a busy machine; NiceGUI's default limit is three
# seconds.
MAX_SECONDS = 30.0
_NAME = "<h1 class='t-name'>Tally</h1>"
# A NiceGUI page starts with an inline script and compiles its components' templates in the browser:
# without `unsafe-inline` and `unsafe-eval` it stays empty.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class LiveSources:
    """The sources behind Kafka: the alert feed, the rules' desk, dead letters, actions, the watch.

    `feed` None: no alerts arrive live; `fact_source` None: nothing is watched. The other sources,
    if None, are created for the brokers of the settings.
    """

    feed: Feed | None = None
    simulation_service: SimulationService | None = None
    letters: LetterReader | None = None
    writer: ActionWriter | None = None
    fact_source: AlertFactSource | None = None


@dataclass(frozen=True)
class PageRequest:
    """The store and the period in an address, as unchecked text; empty where it names none."""

    store: str
    days: str
    until: str


def mount(
    app: FastAPI,
    settings: Settings,
    views: ViewReader,
    live: LiveSources | None = None,
) -> None:
    """Add the pages to the application, and below them the files that they load.

    They are at `/`, `/stores`, `/report/{id}`, `/alerts`, `/alerts/{id}`, `/refused`, `/rules`,
    `/rules/{id}`, `/rules/{id}/edit` and `/new-rule`. The last four ask the desk.
    """
    live = live or LiveSources()
    desk = live.simulation_service or SimulationService.from_settings(settings, views)
    source = FigureSource(settings, views, live.writer)
    rules = RuleFigureSource.from_settings(settings, views, desk, live.fact_source)
    _add_alert_pages(source, live.feed)
    _add_refused_page(source, RefusedSource(views, live.letters or LetterReader(settings)))
    _add_rule_pages(source, rules)
    may_apply = settings.rule_edits == "allow"
    _add_editors(source, EditorContext(RuleEditService(desk.rules), rules, may_apply))

    @ui.page("/", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def store_page(store: str = "", days: str = "", until: str = "") -> None:
        with ui.element("div").classes("t-page"):
            await _store_page(source, PageRequest(store, days, until))

    @ui.page("/report/{report_id}", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def report_page(
        report_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        with ui.element("div").classes("t-page"):
            await _report_page(source, report_id, PageRequest(store, days, until))

    @ui.page("/stores", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def overview_page(days: str = "", until: str = "", page: str = "") -> None:
        with ui.element("div").classes("t-page"):
            await _overview_page(source, PageRequest("", days, until), page)

    # Registered before the pages, which take every remaining path.
    add_api_not_found(app)
    app.add_middleware(Admission, pages=[*Client.page_routes.values()])
    add_page_not_found()
    ui.run_with(app, title="Tally", show_welcome_message=False)


def _add_alert_pages(source: FigureSource, feed: Feed | None) -> None:
    @ui.page("/alerts", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def inbox_page(store: str = "", days: str = "", until: str = "") -> None:
        with ui.element("div").classes("t-page"):
            stores = await _stores(source)
            question = PageRequest(store, days, until)
            if stores and (not store or _choose_store(stores, question) is not None):
                await show_inbox(source, feed, stores, _alert_period(question), store)

    @ui.page("/alerts/{alert_id}", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def alert_page(alert_id: str) -> None:
        with ui.element("div").classes("t-page"):
            stores = await _stores(source)
            if stores:
                await show_alert(source, stores, _alert_period(PageRequest("", "", "")), alert_id)


def _add_refused_page(source: FigureSource, refused: RefusedSource) -> None:
    @ui.page("/refused", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def refusals_page(store: str = "") -> None:
        with ui.element("div").classes("t-page"):
            stores = await _stores(source)
            question = PageRequest(store, "", "")
            if stores and (not store or _choose_store(stores, question) is not None):
                await show_refused(refused, stores, _alert_period(question), store)


def _add_rule_pages(source: FigureSource, rules: RuleFigureSource) -> None:
    @ui.page("/rules", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def rules_page() -> None:
        with ui.element("div").classes("t-page"):
            stores = await _stores(source)
            if stores:
                question = PageRequest("", "", "")
                await show_rules(rules, stores[0], _period(stores[0], question))

    @ui.page("/rules/{rule_id}", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def rule_page(
        rule_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        with ui.element("div").classes("t-page"):
            stores = await _stores(source)
            # A week, because the chart cannot show more quarter hours apart.
            question = PageRequest(store, days or "7", until)
            chosen = _choose_store(stores, question)
            if chosen is not None:
                await show_rule(rules, rule_id, stores, chosen, _period(chosen, question))


def _add_editors(source: FigureSource, place: EditorContext) -> None:
    async def open_editor(rule_id: str | None, question: PageRequest) -> None:
        stores = await _stores(source)
        chosen = _choose_store(stores, question)
        if chosen is not None:
            await show_editor(place, rule_id, stores, chosen, _period(chosen, question))

    @ui.page("/rules/{rule_id}/edit", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def edit_page(
        rule_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        with ui.element("div").classes("t-page"):
            await open_editor(rule_id, PageRequest(store, days or "7", until))

    @ui.page("/new-rule", title="Tally", language="en-US", response_timeout=MAX_SECONDS)
    async def new_page() -> None:
        with ui.element("div").classes("t-page"):
            await open_editor(None, PageRequest("", "7", ""))


def _alert_period(question: PageRequest) -> Period:
    # Alerts are raised now, even if the newest event is years old.
    return parse_period(question.until, question.days, datetime.now(UTC).date())


async def _store_page(source: FigureSource, question: PageRequest) -> None:
    stores = await _stores(source)
    chosen = _choose_store(stores, question)
    if chosen is not None:
        await show_store(source, stores, chosen, _period(chosen, question))


async def _report_page(source: FigureSource, report_id: str, question: PageRequest) -> None:
    stores = await _stores(source)
    chosen = _choose_store(stores, question)
    if chosen is None:
        return
    shape, period = loader.reports().get(report_id), _period(chosen, question)
    if shape is not None:
        await show_report(source, shape, stores, chosen, period)
        return
    _not_found(stores, chosen, period)
    with ui.element("main").classes("t-body"):
        say(f"There is no report {report_id[:64]}", "These are the reports that there are.")
        html(report_links(chosen.store.store_id, period))


async def _overview_page(source: FigureSource, question: PageRequest, number: str) -> None:
    stores = await _stores(source)
    if stores:
        period = parse_period(question.until, question.days, newest_day(stores))
        await show_overview(source, stores, period, number)


async def _stores(source: FigureSource) -> list[StoreChoice]:
    """Every store; empty if there is nothing to show, and then the page says why."""
    begin()
    try:
        stores = await source.stores()
    except ViewsUnreachable as error:
        log_unreachable(error)
        html(_NAME)
        say_unreachable()
        return []
    if not stores:
        html(_NAME)
        say(
            "No store has sent anything yet",
            "Receipts show here seconds after they arrive; try `tally replay`.",
            retry=True,
        )
    return stores


def _choose_store(stores: list[StoreChoice], question: PageRequest) -> StoreChoice | None:
    """The store named in the address, or the first; None for an unknown one, as the page says."""
    if not stores or not question.store:
        return stores[0] if stores else None
    chosen = next((choice for choice in stores if choice.store.store_id == question.store), None)
    if chosen is None:
        _not_found(stores, stores[0], _period(stores[0], question))
        with ui.element("main"):
            say(
                f"There is no store {question.store[:64]}",
                "No event of it has arrived yet. Choose another one above.",
            )
    return chosen


def _not_found(stores: list[StoreChoice], chosen: StoreChoice, period: Period) -> None:
    # A reader sees a normal page, and a program gets the status that the API gives for such a name.
    ui.context.client.status_code = HTTPStatus.NOT_FOUND
    show_frame(Frame("report", "Not found", period, store_address, chosen, stores))


def _period(chosen: StoreChoice, question: PageRequest) -> Period:
    return parse_period(question.until, question.days, chosen.last_day)
