"""The page of a store: its sales, and a panel for each report."""

from collections.abc import Sequence
from functools import partial
from html import escape

from nicegui import ui

from schemas import loader
from serving.dashboard import charts, labels
from serving.dashboard.addresses import report_address, store_address
from serving.dashboard.figures import Figures
from serving.dashboard.frame import Frame, chart, html, keep_current, show_frame
from serving.dashboard.inside import PersonsInside, inside_chart, known_text, residue_text
from serving.dashboard.period import Period
from serving.dashboard.report_charts import describe_chart, has_chart, report_chart
from serving.dashboard.report_labels import state_of, unexplained_text
from serving.dashboard.report_markup import beside_value, figure, state_chip
from serving.dashboard.source import FigureSource, StoreChoice
from serving.dashboard.unit_style import UnitStyle
from serving.reports.comparison import Withheld
from serving.reports.report import StoreReport

REFRESH_SECONDS = 30.0
# Reports are of all families: several times the work of the figures above them.
REPORTS_REFRESH_SECONDS = 120.0


async def show_store(
    source: FigureSource, stores: list[StoreChoice], chosen: StoreChoice, period: Period
) -> None:
    """The whole page."""
    show_frame(Frame("store", chosen.label, period, store_address, chosen, stores))
    with ui.element("main").classes("t-body"):
        await keep_current(
            partial(source.figures, chosen.store, period),
            partial(_show_figures, chosen=chosen, period=period),
            REFRESH_SECONDS,
        )
        await keep_current(
            partial(source.inside, chosen.store, period), _show_inside, REFRESH_SECONDS
        )
        # Apart from the figures, which are renewed more often.
        html("<h2 class='t-heading' id='reports'>Reports</h2>")
        await keep_current(
            partial(source.reports, chosen.store, period),
            partial(_show_reports, chosen=chosen, period=period),
            REPORTS_REFRESH_SECONDS,
        )


def _show_figures(figures: Figures, chosen: StoreChoice, period: Period) -> None:
    _show_coverage(figures)
    with ui.element("section").classes("t-cards").props('aria-label="Sums of the period"'):
        for card in figures.cards:
            unit = escape(labels.unit_text(card, figures.currency))
            changed = labels.change_text(card, period, figures.compared_quarters)
            html(
                f"<article class='t-card'><h2>{labels.TITLES[card.metric]}</h2>"
                f"<div class='t-value'>{labels.value_text(card, figures.currency)}"
                f"<span class='t-unit'>{unit}</span></div>"
                f"<div class='t-change'>{changed}</div></article>"
            )
    with ui.element("section").classes("t-panels").props('aria-label="Charts of the period"'):
        _show_panel(
            "Revenue by day",
            charts.describe_days(figures.days),
            charts.revenue_by_day(figures, chosen.store.tz),
        )
        _show_panel(
            "Receipts by hour of the week",
            "Mean number of receipts in each hour",
            charts.receipts_by_hour_of_week(figures),
        )
    html(
        f"<p class='t-foot'>{escape(labels.note_text(figures))}"
        " The same numbers by HTTP: /v1/metrics</p>"
    )


def _show_coverage(figures: Figures) -> None:
    sign, word = labels.BADGES[figures.coverage.state]
    text = escape(labels.coverage_text(figures.coverage))
    html(
        f"<div class='t-badge t-{figures.coverage.state}' role='status'>"
        f"<strong>{sign} {word}</strong><span>{text}</span></div>"
    )


def _show_panel(title: str, subtitle: str, options: charts.Options) -> None:
    with ui.element("article").classes("t-panel"):
        html(f"<h2>{escape(title)}</h2><p class='t-sub'>{escape(subtitle)}</p>")
        chart(options, title)


def _show_inside(inside: PersonsInside) -> None:
    title = "Persons inside (by the counters)"
    residue = escape(residue_text(inside))
    number = "" if inside.residue is None else inside.residue
    with ui.element("section").classes("t-panel").props(f'aria-label="{title}"'):
        html(f"<h2>{title}</h2><p class='t-sub'>{escape(known_text(inside))}</p>")
        # Of a day that no counter has told of the line would say that the store was empty.
        if inside.is_counted:
            chart(inside_chart(inside), title, "t-small")
            html(f"<p class='t-known' data-residue='{number}'>{residue}</p>")


def _show_reports(
    found: Sequence[StoreReport | Withheld], chosen: StoreChoice, period: Period
) -> None:
    with ui.element("section").classes("t-reports").props('aria-labelledby="reports"'):
        for report_id, one in zip(loader.reports(), found, strict=True):
            with ui.element("article").classes("t-panel t-report"):
                _show_report(report_id, one, chosen, period)


def _show_report(
    report_id: str, found: StoreReport | Withheld, chosen: StoreChoice, period: Period
) -> None:
    shape = loader.reports()[report_id]
    compared = found if isinstance(found, Withheld) else found.comparison
    style = style_of(found, chosen)
    html(
        f"<div class='t-line'><h3>{escape(shape.title)}</h3>{state_chip(state_of(compared))}</div>"
        f"<p class='t-sub'>{escape(shape.data_source)}</p>"
        f"{figure(report_id, compared, style, period)}"
    )
    # An empty frame would say no more than the dash above it.
    if isinstance(found, StoreReport) and has_chart(found):
        chart(report_chart(found, style, is_small=True), describe_chart(found), "t-small")
    address = escape(report_address(report_id, chosen.store.store_id, period))
    if isinstance(found, StoreReport) and found.beside is not None:
        name = escape(found.beside.name)
        html(f"<p class='t-known'>{name}: {beside_value(found.beside)}</p>")
    if isinstance(found, StoreReport) and (left := unexplained_text(found, style)):
        html(f"<p class='t-known'>{escape(left)}</p>")
    html(
        f"<p class='t-read'>{escape(shape.how_to_read)}</p><a class='t-more' href='{address}'>"
        f"Table and details<span class='t-unseen'> of {escape(shape.title)}</span></a>"
    )


def style_of(found: StoreReport | Withheld, chosen: StoreChoice) -> UnitStyle:
    """The unit of a report's numbers; of money that nobody took that of the store."""
    if isinstance(found, Withheld):
        return UnitStyle("", chosen.store.currency)
    currency = found.comparison.currency or chosen.store.currency
    return UnitStyle(found.comparison.unit, currency)
