"""The page: its store and period are in the address.

So a view can be shared and the back button works.
"""

from collections.abc import Callable
from html import escape
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

import structlog
from fastapi import FastAPI, HTTPException, Request
from nicegui import ui
from starlette.routing import Match

from serving.dashboard import charts, labels
from serving.dashboard.admission import Admission
from serving.dashboard.figures import Figures
from serving.dashboard.period import LENGTHS, Period, period_of
from serving.dashboard.source import FigureSource, StoreChoice
from serving.merge.views import ViewReader
from tally.errors import ViewsUnreachable
from tally.settings import Settings

log = structlog.get_logger()
STYLE = (Path(__file__).parent / "style.css").read_text("utf-8")
REFRESH_SECONDS = 30.0
# NiceGUI's page starts by an inline script and compiles its components' templates in the browser:
# without these two it stays empty.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def mount(app: FastAPI, settings: Settings, views: ViewReader) -> None:
    """Adds the page at `/`, and below it the files that it loads."""
    source = FigureSource(settings, views)

    @ui.page("/", title="Tally", language="en-US")
    async def dashboard(store: str = "", days: str = "", until: str = "") -> None:
        await show(source, store, days, until)

    # Ahead of the page, which takes every path that is left.
    _keep_api_errors(app)
    app.add_middleware(Admission)
    ui.run_with(app, title="Tally", show_welcome_message=False)


def _keep_api_errors(app: FastAPI) -> None:
    """An unknown path or method below /v1 stays an error of the API.

    It does so although the page takes every path that is left.
    """

    @app.api_route(
        "/v1/{rest:path}",
        methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        include_in_schema=False,
    )
    async def unknown(request: Request) -> None:
        """Raises HTTPException: 405 where the path has other methods, else 404."""
        is_other_method = any(
            route.matches(request.scope)[0] is Match.PARTIAL for route in app.routes
        )
        raise HTTPException(
            HTTPStatus.METHOD_NOT_ALLOWED if is_other_method else HTTPStatus.NOT_FOUND
        )


async def show(source: FigureSource, store: str, days: str, until: str) -> None:
    """The whole page of one store and period, or why there is nothing to show."""
    ui.add_css(STYLE)
    ui.colors(primary=charts.BATCH)
    with ui.element("main").classes("t-page"):
        try:
            stores = await source.stores()
        except ViewsUnreachable as error:
            _say_unreachable(error)
            return
        if not stores:
            _say(
                "No store has sent anything yet",
                "Receipts show here seconds after they arrive; try `tally replay`.",
                retry=True,
            )
            return
        await _show_store(source, stores, (store, days, until))


async def _show_store(
    source: FigureSource, stores: list[StoreChoice], asked: tuple[str, str, str]
) -> None:
    name, days, until = asked
    chosen = next((one for one in stores if one.store.store_id == name), None)
    period = period_of(until, days, (chosen or stores[0]).last_day)
    _top(stores, chosen or stores[0], period)
    if name and chosen is None:
        _say(
            f"There is no store {name[:64]}",
            "No event of it has arrived yet. Choose another one above.",
        )
        return
    await _refreshed(source, chosen or stores[0], period)


async def _refreshed(source: FigureSource, chosen: StoreChoice, period: Period) -> None:
    @ui.refreshable
    async def body() -> None:
        try:
            figures = await source.figures(chosen.store, period)
        # The page stays, and looks again by itself: an outage ends without anybody's doing.
        except ViewsUnreachable as error:
            _say_unreachable(error)
            return
        _body(figures, chosen, period)

    # The body alone is made anew: what a reader types above it stays.
    await body()
    ui.timer(REFRESH_SECONDS, body.refresh, immediate=False)


def _top(stores: list[StoreChoice], chosen: StoreChoice, period: Period) -> None:
    store_id = chosen.store.store_id
    with ui.element("header").classes("t-top"):
        _html(
            f"<div class='t-brand'><h1>Tally</h1>"
            f"<p>{escape(_span(period))}, {escape(chosen.store.tz)}</p></div>"
        )
        with ui.element("div").classes("t-controls"):
            options = {one.store.store_id: one.label for one in stores}
            picker = ui.select(options, label="Store", value=store_id, with_input=True)
            picker.props("dense outlined options-dense").classes("t-store")
            picker.on_value_change(lambda event: _go(event.value or store_id, period))
            _step("chevron_left", "Earlier", lambda: _go(store_id, period.moved(-1)))
            until = (
                ui.input("Until", value=period.last.isoformat())
                .props("type=date dense outlined")
                .classes("t-until")
            )
            until.on(
                "change",
                lambda: _go(
                    store_id, period_of(str(until.value), str(period.length), chosen.last_day)
                ),
            )
            _step("chevron_right", "Later", lambda: _go(store_id, period.moved(1)))
            length = ui.toggle({days: f"{days} days" for days in LENGTHS}, value=period.length)
            length.props("no-caps unelevated").classes("t-length")
            length.on_value_change(lambda event: _go(store_id, Period(period.last, event.value)))


def _body(figures: Figures, chosen: StoreChoice, period: Period) -> None:
    _badge(figures)
    with ui.element("section").classes("t-cards"):
        for card in figures.cards:
            unit = escape(labels.unit_text(card, figures.currency))
            changed = labels.change_text(card, period, figures.compared_quarters)
            _html(
                f"<article class='t-card'><h2>{labels.TITLES[card.metric]}</h2>"
                f"<div class='t-value'>{labels.value_text(card, figures.currency)}"
                f"<span class='t-unit'>{unit}</span></div>"
                f"<div class='t-change'>{changed}</div></article>"
            )
    with ui.element("section").classes("t-panels"):
        _panel(
            "Revenue by day",
            charts.describe_days(figures.days),
            charts.revenue_by_day(figures, chosen.store.tz),
        )
        _panel(
            "Receipts by hour of the week",
            "Mean number of receipts in each hour",
            charts.receipts_by_hour_of_week(figures),
        )
    _html(
        f"<footer class='t-foot'>{escape(labels.note_text(figures))}"
        " The same numbers by HTTP: /v1/metrics</footer>"
    )


def _badge(figures: Figures) -> None:
    sign, word = labels.BADGES[figures.coverage.state]
    text = escape(labels.coverage_text(figures.coverage))
    _html(
        f"<div class='t-badge t-{figures.coverage.state}' role='status'>"
        f"<strong>{sign} {word}</strong><span>{text}</span></div>"
    )


def _panel(title: str, subtitle: str, options: charts.Options) -> None:
    with ui.element("article").classes("t-panel"):
        _html(f"<h2>{escape(title)}</h2><p class='t-sub'>{escape(subtitle)}</p>")
        ui.echart(options).classes("t-chart").props(f'role="img" aria-label="{escape(title)}"')


def _say_unreachable(error: ViewsUnreachable) -> None:
    # The cause names addresses and classes: it is for the log.
    log.warning("dashboard: views unreachable", reason=str(error.__cause__ or error))
    _say(
        "The numbers cannot be read right now",
        "The tables behind this page do not answer; `tally status` shows what runs.",
        retry=True,
    )


def _say(title: str, text: str, retry: bool = False) -> None:
    with ui.element("section").classes("t-state"):
        _html(f"<h2>{escape(title)}</h2><p>{escape(text)}</p>")
        if retry:
            ui.button("Try again", on_click=ui.navigate.reload).props("no-caps unelevated")


def _step(icon: str, label: str, act: Callable[[], None]) -> None:
    ui.button(icon=icon, on_click=act).props(f'flat dense round aria-label="{label}"').tooltip(
        label
    )


def _go(store_id: str, period: Period) -> None:
    asked = {"store": store_id, "days": period.length, "until": period.last.isoformat()}
    ui.navigate.to(f"/?{urlencode(asked)}")


def _html(text: str) -> None:
    # Every name in it has been escaped where it was put in.
    ui.html(text, sanitize=False).style("display: contents")


def _span(period: Period) -> str:
    return f"{period.first:%a %-d %b %Y} to {period.last:%a %-d %b %Y}"
