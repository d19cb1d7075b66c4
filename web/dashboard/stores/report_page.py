"""The page of one report of a store, with a large chart and the series as a table."""

from functools import partial
from html import escape

from nicegui import ui

from schemas import loader
from schemas.report import ReportShape
from serving.reports.comparison import WithheldValue
from serving.reports.report import StoreReport
from tally.time.instants import format_instant
from web.dashboard.reports.charts import PIVOTS, describe_chart, has_chart, report_chart
from web.dashboard.reports.labels import number_state, quality_text, remainder_text, through_text
from web.dashboard.reports.markup import beside_value, figure, series_table, state_chip
from web.dashboard.shared.addresses import answer_address, report_address
from web.dashboard.shared.frame import Frame, chart, html, keep_current, show_frame
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import FigureSource, StoreChoice
from web.dashboard.stores.store_page import REPORTS_REFRESH_SECONDS, report_style

# The number of article bars that a chart of the usual height has room for.
MANY_ITEMS = 10


async def show_report(
    source: FigureSource,
    shape: ReportShape,
    stores: list[StoreChoice],
    chosen: StoreChoice,
    period: Period,
) -> None:
    """Draw the page of one report."""
    address = partial(report_address, shape.id)
    show_frame(Frame("report", f"{shape.title} · {chosen.label}", period, address, chosen, stores))
    with ui.element("main").classes("t-body"):
        await keep_current(
            partial(source.report, shape, chosen.store, period),
            partial(_show, shape=shape, chosen=chosen, period=period),
            REPORTS_REFRESH_SECONDS,
        )
        html(report_links(chosen.store.store_id, period, shape.id))


def report_links(store_id: str, period: Period, current: str = "") -> str:
    """The links to every report of a store, as markup; `current` is the report being shown."""
    links = "".join(
        f"<a href='{escape(report_address(shape.id, store_id, period))}'"
        f"{' aria-current=page' if shape.id == current else ''}>{escape(shape.title)}</a>"
        for shape in loader.reports().values()
    )
    return f"<nav class='t-links' aria-label='Reports'>{links}</nav>"


def _show(
    found: StoreReport | WithheldValue, shape: ReportShape, chosen: StoreChoice, period: Period
) -> None:
    # A withheld report has a state and a reason, but nothing to draw.
    compared = found if isinstance(found, WithheldValue) else found.comparison
    style = report_style(found, chosen)
    with ui.element("section").classes("t-panel").props('aria-label="The report"'):
        html(
            f"<div class='t-line'>{state_chip(number_state(compared))}</div>"
            f"<div class='t-large'>{figure(shape.id, compared, style, period)}</div>"
            f"<p class='t-read'>{escape(shape.how_to_read)}</p>"
        )
        if isinstance(found, StoreReport) and has_chart(found):
            # Stacked horizontal bars need the height of their names.
            is_tall = shape.pivot == "item" and len(found.series) > MANY_ITEMS
            size = "t-tall" if is_tall else ""
            chart(report_chart(found, style, is_small=False), describe_chart(found), size)
    with ui.element("section").classes("t-panel").props('aria-label="What it stands on"'):
        html(_facts(found, shape, chosen, period))
    if isinstance(found, StoreReport):
        title = PIVOTS[shape.pivot].capitalize()
        with ui.element("section").classes("t-panel").props('aria-label="Table"'):
            html(
                f"<h2 id='series'>{title}</h2><div class='t-scroll' role='region'"
                " aria-labelledby='series' tabindex='0'><table class='t-table'>"
                f"{series_table(found, style)}</table></div>"
            )


def _facts(
    found: StoreReport | WithheldValue, shape: ReportShape, chosen: StoreChoice, period: Period
) -> str:
    address = escape(answer_address(shape.id, chosen.store.store_id, period))
    facts = {"Data source": escape(shape.data_source)}
    if isinstance(found, StoreReport):
        compared, zone = found.comparison, found.request.zone
        through = format_instant(compared.through, zone) if compared.through else ""
        facts |= {
            "What it is worth": quality_text(compared),
            "Everything counted that had arrived by": (
                f"<span data-through='{through}'>{escape(through_text(compared, zone))}</span>"
            ),
        }
        if left := remainder_text(found, report_style(found, chosen)):
            facts["In no item"] = escape(left)
        if found.companion is not None:
            facts[escape(found.companion.name)] = beside_value(found.companion)
    facts["The same numbers by HTTP"] = f"<a href='{address}'><code>{address}</code></a>"
    # The values have been escaped above.
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items())
    return f"<dl class='t-facts'>{rows}</dl>"
