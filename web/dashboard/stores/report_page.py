"""The page of one report of a store, with a large chart and the series as a table."""

from functools import partial

from markupsafe import Markup
from nicegui import ui

from schemas import loader
from schemas.report import ReportShape
from serving.reports.comparison import WithheldValue
from serving.reports.report import StoreReport
from tally.time.instants import format_instant
from web.dashboard.shared.addresses import Period, answer_address, report_address
from web.dashboard.shared.frame import Frame, chart, html, keep_current, panel, show_frame
from web.dashboard.shared.markup import Content, api_link, element, facts, link, scroll, span
from web.dashboard.shared.source import FigureSource, PageSelection, StoreChoice
from web.dashboard.stores.report_figures import (
    PIVOTS,
    describe_chart,
    has_chart,
    number_state,
    quality_text,
    remainder_text,
    report_chart,
    through_text,
)
from web.dashboard.stores.report_markup import beside_value, figure, report_chip, series_table
from web.dashboard.stores.store_page import REPORTS_REFRESH_SECONDS, report_style

# The number of article bars that a chart of the usual height has room for.
MANY_ITEMS = 10


async def show_report(source: FigureSource, shape: ReportShape, selection: PageSelection) -> None:
    """Draw the page of one report."""
    chosen, period = selection.chosen, selection.period
    address = partial(report_address, shape.id)
    heading = f"{shape.title} · {chosen.label}"
    show_frame(Frame("report", heading, period, address, chosen, selection.stores))
    with ui.element("main").classes("t-body"):
        await keep_current(
            partial(source.report, shape, chosen.store, period),
            partial(_show, shape=shape, chosen=chosen, period=period),
            REPORTS_REFRESH_SECONDS,
        )
        html(report_links(chosen.store.store_id, period, shape.id))


def report_links(store_id: str, period: Period, current: str = "") -> Markup:
    """The links to every report of a store; `current` is the report being shown."""
    links = (
        link(
            report_address(shape.id, store_id, period),
            shape.title,
            aria_current="page" if shape.id == current else None,
        )
        for shape in loader.reports().values()
    )
    return element("nav", *links, class_="t-links", aria_label="Reports")


def _show(
    found: StoreReport | WithheldValue, shape: ReportShape, chosen: StoreChoice, period: Period
) -> None:
    # A withheld report has a state and a reason, but nothing to draw.
    compared = found if isinstance(found, WithheldValue) else found.comparison
    style = report_style(found, chosen)
    with panel(label="The report"):
        html(
            element("div", report_chip(number_state(compared)), class_="t-line")
            + element("div", figure(shape.id, compared, style, period), class_="t-large")
            + element("p", shape.how_to_read, class_="t-read")
        )
        if isinstance(found, StoreReport) and has_chart(found):
            # Stacked horizontal bars need the height of their names.
            is_tall = shape.pivot == "item" and len(found.series) > MANY_ITEMS
            size = "t-tall" if is_tall else ""
            chart(report_chart(found, style, is_small=False), describe_chart(found), size)
    with panel(label="What it stands on"):
        html(_facts(found, shape, chosen, period))
    if isinstance(found, StoreReport):
        title = element("h2", PIVOTS[shape.pivot].capitalize(), id="series")
        with panel(label="Table"):
            html(title + scroll(series_table(found, style), aria_labelledby="series"))


def _facts(
    found: StoreReport | WithheldValue, shape: ReportShape, chosen: StoreChoice, period: Period
) -> Markup:
    values: dict[str, Content] = {"Data source": shape.data_source}
    if isinstance(found, StoreReport):
        compared, zone = found.comparison, found.request.zone
        through = format_instant(compared.through, zone) if compared.through else ""
        values |= {
            "What it is worth": quality_text(compared),
            "Everything counted that had arrived by": span(
                through_text(compared, zone), data_through=through
            ),
        }
        if left := remainder_text(found, report_style(found, chosen)):
            values["In no item"] = left
        if found.companion is not None:
            values[found.companion.name] = beside_value(found.companion)
    address = answer_address(shape.id, chosen.store.store_id, period)
    values["The same numbers by HTTP"] = api_link(address)
    return facts(values)
