"""The routes of the pages; store and period are in the address. Too many requests get none."""

import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import wraps
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from nicegui import Client, ui
from nicegui import app as nicegui_app
from starlette.responses import PlainTextResponse
from starlette.routing import Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from alerting.health.service import RuleHealthService
from alerting.health.watch import AlertFacts, AlertFactSource
from alerting.queries.alerts import ActionWriter, AlertQueryService
from alerting.queries.known_rules import RuleEditService
from alerting.simulate.service import SimulationService
from alerting.stream.feed import Feed
from schemas import loader
from serving.storage.dead_letters import LetterReader
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from web.dashboard.alerts.inbox import show_alert, show_inbox
from web.dashboard.refused import RefusedSource, show_refused
from web.dashboard.rules.editor import EditorContext, show_editor
from web.dashboard.rules.figure import RuleFigureSource
from web.dashboard.rules.pages import show_rule, show_rules
from web.dashboard.shared import frame
from web.dashboard.shared.addresses import parse_period, store_address
from web.dashboard.shared.markup import element
from web.dashboard.shared.source import FigureSource, PageSelection, newest_day
from web.dashboard.stores.overview import show_overview
from web.dashboard.stores.store_page import report_links, show_report, show_store

# Each page is work for the API's only event loop, and it uses memory until its browser leaves: a
# store's page of 28 days costs over half a second of processor time, most of it outside the event
# loop, and 1 MB of memory while it is kept.
PAGES_A_SECOND = 2.0
MAX_AT_ONCE = 20
MAX_CLIENTS = 200
# A real browser opens its socket within seconds; a page without a socket is treated as abandoned.
_ABANDONED_SECONDS = 10.0
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


class Admission:
    """Middleware that answers 503 to page requests without a free token or room for a client.

    Requests to other addresses always pass. `pages`: the paths of the pages, as route patterns. A
    path counts as a page only if it matches a pattern as a whole: a path that merely begins like
    one is answered with 404, which costs next to nothing.
    """

    def __init__(self, app: ASGIApp, pages: Iterable[str]) -> None:
        self._app = app
        self._pages = [compile_path(path)[0] for path in pages]
        self._tokens = float(MAX_AT_ONCE)
        self._filled_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        is_page = scope["type"] == "http" and any(
            pattern.match(scope["path"]) for pattern in self._pages
        )
        answer = self._app
        if is_page and not (self._has_token() and _has_room()):
            text = "Too many pages are asked for; try again in a moment."
            answer = PlainTextResponse(text, 503, {"Retry-After": "2"})
        await answer(scope, receive, send)

    def _has_token(self) -> bool:
        now = time.monotonic()
        self._tokens = min(MAX_AT_ONCE, self._tokens + PAGES_A_SECOND * (now - self._filled_at))
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def _has_room() -> bool:
    if len(Client.instances) >= MAX_CLIENTS:
        Client.prune_instances(client_age_threshold=_ABANDONED_SECONDS)
    return len(Client.instances) < MAX_CLIENTS


def _add_api_not_found(app: FastAPI) -> None:
    """Answer unknown paths and methods below /v1, which a page would take, with an API error."""

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

    @app.api_route("/v1/{rest:path}", methods=methods, include_in_schema=False)
    async def unknown(request: Request) -> None:
        """Raises HTTPException: 405 where the path has other methods, else 404."""
        matches = (route.matches(request.scope)[0] for route in app.routes)
        raise HTTPException(405 if Match.PARTIAL in matches else 404)


async def _answer_no_page(_request: Request, _error: Exception) -> Response:
    text = "There is no such page; / has the numbers, and /openapi.json the addresses of the API."
    return PlainTextResponse(text, 404)


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
        frame.begin()
        try:
            stores = await self.source.stores()
        except ViewsUnreachable as error:
            frame.log_unreachable(error)
            frame.html(_NAME)
            frame.say_unreachable()
            return None
        if not stores:
            frame.html(_NAME)
            hint = "Receipts show here seconds after they arrive; try `tally replay`."
            frame.say("No store has sent anything yet", hint, retry=True)
            return None
        named = next((choice for choice in stores if choice.store.store_id == store), None)
        chosen = named or stores[0]
        if store and not named:
            period = parse_period(until, days, chosen.last_day)
            frame.show_not_found(
                frame.Frame("report", "", period, store_address, chosen, stores),
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
    refused = RefusedSource(views, live.letters or LetterReader(settings))
    _add_alert_pages(pages, live.feed, refused)
    may_apply = settings.rule_edits == "allow"
    _add_rule_pages(pages, EditorContext(RuleEditService(simulations.rules), rules, may_apply))
    _add_store_pages(pages)
    # Registered before the pages, which take every remaining path.
    _add_api_not_found(app)
    app.add_middleware(Admission, pages=[*Client.page_routes.values()])
    # A text instead of a NiceGUI page, which NiceGUI would keep.
    nicegui_app.add_exception_handler(404, _answer_no_page)
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
        frame.show_not_found(
            frame.Frame("report", "", period, store_address, chosen, selection.stores),
            f"There is no report {report_id[:64]}",
            "These are the reports that there are.",
            report_links(chosen.store.store_id, period),
        )

    @_add_page("/stores")
    async def overview_page(days: str = "", until: str = "", page: str = "") -> None:
        if selection := await pages.select():
            period = parse_period(until, days, newest_day(selection.stores))
            await show_overview(pages.source, replace(selection, period=period), page)


def _add_alert_pages(pages: Dashboard, feed: Feed | None, refused: RefusedSource) -> None:
    @_add_page("/alerts")
    async def inbox_page(store: str = "", days: str = "", until: str = "") -> None:
        if selection := await pages.select(store, days, until, _today()):
            await show_inbox(pages.source, feed, selection, store)

    @_add_page("/alerts/{alert_id}")
    async def alert_page(alert_id: str) -> None:
        if selection := await pages.select(newest=_today()):
            await show_alert(pages.source, selection, alert_id)

    @_add_page("/refused")
    async def refusals_page(store: str = "") -> None:
        if selection := await pages.select(store, newest=_today()):
            await show_refused(refused, selection, store)


def _add_rule_pages(pages: Dashboard, editor: EditorContext) -> None:
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

    @_add_page("/rules/{rule_id}/edit")
    async def edit_page(
        rule_id: str,
        store: str = "",
        days: str = "",
        until: str = "",
    ) -> None:
        if selection := await pages.select(store, days or "7", until):
            await show_editor(editor, rule_id, selection)

    @_add_page("/new-rule")
    async def new_page() -> None:
        if selection := await pages.select(days="7"):
            await show_editor(editor, None, selection)


def _today() -> date:
    # Alerts are raised now, even if the newest event is years old.
    return datetime.now(UTC).date()
