"""The page of a store (sales, persons inside, a panel for each report), and that of one report."""

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup
from nicegui import ui

from alerting.queries.alerts import ListedAlert
from schemas import loader
from schemas.metric import ReportShape
from serving.reports.comparison import WithheldValue
from serving.reports.report import StoreReport
from tally.time.instants import format_instant
from tally.time.windows import WINDOW
from web.dashboard.alerts.marks import ChartAlerts, StoreAlerts, place_of_day, show_alert_chart
from web.dashboard.alerts.markup import MARK_KEY, alert_table
from web.dashboard.shared import addresses, charts, labels, markup
from web.dashboard.shared.addresses import Period, answer_address, inbox_address, report_address
from web.dashboard.shared.figures import Figures, Occupancy
from web.dashboard.shared.frame import Frame, chart, html, keep_current, panel, show_frame
from web.dashboard.shared.labels import UnitStyle
from web.dashboard.shared.markup import Content, element, link, note, scroll, span, subtitle
from web.dashboard.shared.source import FigureSource, PageSelection, StoreChoice
from web.dashboard.stores import report_figures
from web.dashboard.stores.report_figures import number_state
from web.dashboard.stores.report_markup import beside_value, figure, report_chip, series_table

REFRESH_SECONDS = 30.0
_MAX_LISTED = 6
# The reports read all families, which is several times the work of the figures above them.
REPORTS_REFRESH_SECONDS = 120.0


async def show_store(source: FigureSource, selection: PageSelection) -> None:
    """Draw the page of a store."""
    chosen, period = selection.chosen, selection.period
    show_frame(
        Frame("store", chosen.label, period, addresses.store_address, chosen, selection.stores)
    )
    alerts = StoreAlerts(source.alerts, chosen, period)
    figures = partial(source.figures, chosen.store, period)
    inside = partial(source.occupancy, chosen.store, period)
    shapes = [*loader.reports().values()]
    reports = partial(source.reports, shapes, chosen.store, period)
    with ui.element("main").classes("t-body"):
        draw_figures = partial(_show_figures, alerts=alerts)
        await keep_current(partial(alerts.load_with, figures), draw_figures, REFRESH_SECONDS)
        draw_inside = partial(_show_occupancy, chosen=chosen)
        await keep_current(partial(alerts.load_with, inside), draw_inside, REFRESH_SECONDS)
        # Reports are loaded apart from the figures, which are refreshed more often.
        html(element("h2", "Reports", class_="t-heading", id="reports"))
        load, draw = partial(alerts.load_with, reports), partial(_show_reports, alerts=alerts)
        await keep_current(load, draw, REPORTS_REFRESH_SECONDS)


def _show_figures(found: tuple[Figures, list[ListedAlert]], alerts: StoreAlerts) -> None:
    figures, listed = found
    chosen, period = alerts.chosen, alerts.period
    _show_coverage(figures)
    with ui.element("section").classes("t-cards").props('aria-label="Sums of the period"'):
        for card in figures.cards:
            unit = span(labels.unit_text(card, figures.currency), class_="t-unit")
            number = labels.value_text(card, figures.currency)
            change = labels.change_text(card, period, figures.compared_quarters)
            lines = (
                element("h2", labels.TITLES[card.metric]),
                element("div", number, unit, class_="t-value"),
                element("div", change, class_="t-change"),
            )
            html(element("article", *lines, class_="t-card"))
    with ui.element("section").classes("t-panels").props('aria-label="Charts of the period"'):
        with ui.element("article").classes("t-panel"):
            title = "Revenue by day"
            html(element("h2", title) + subtitle(charts.describe_days(figures.days)))
            options = charts.revenue_by_day(figures, chosen.store.tz)
            show_alert_chart(options, title, (listed, place_of_day(period, chosen), chosen))
        with ui.element("article").classes("t-panel"):
            title = "Receipts by hour of the week"
            html(element("h2", title) + subtitle("Mean number of receipts in each hour"))
            chart(charts.receipts_by_hour_of_week(figures), title)
    _show_alerts(alerts.filter_period(listed), chosen, period)
    html(markup.foot(f"{labels.note_text(figures)} The same numbers by HTTP: /v1/metrics"))


def _show_coverage(figures: Figures) -> None:
    sign, word = labels.BADGES[figures.coverage.state]
    text = span(labels.coverage_text(figures.coverage))
    state = element("strong", f"{sign} {word}")
    html(element("div", state, text, class_=f"t-badge t-{figures.coverage.state}", role="status"))


def _show_alerts(alerts: Sequence[ListedAlert], chosen: StoreChoice, period: Period) -> None:
    # The table serves readers who cannot see the marks or have no pointer.
    if not alerts:
        return
    store_id = chosen.store.store_id
    with panel("marked"):
        title = element("h2", "Alerts of these days", id="marked")
        shown = alert_table(alerts[:_MAX_LISTED], {store_id: chosen})
        html(title + MARK_KEY + scroll(shown, aria_labelledby="marked"))
        left = len(alerts) - _MAX_LISTED
        more = f"{left:,} more are in the inbox" if left > 0 else "Inbox of this store"
        html(note(link(inbox_address(period, store_id), more)))


def _show_occupancy(found: tuple[Occupancy, list[ListedAlert]], chosen: StoreChoice) -> None:
    inside, alerts = found
    title = "Persons inside (by the counters)"
    number = "" if inside.residue is None else inside.residue
    with panel(label=title):
        html(element("h2", title) + subtitle(labels.day_state_text(inside)))
        # For a day without any counter events, the line would suggest that the store was empty.
        if inside.is_counted:
            places = {end - WINDOW: place for place, (end, _) in enumerate(inside.levels)}
            marks = (alerts, places.get, chosen)
            show_alert_chart(charts.occupancy_chart(inside), title, marks, "t-small")
            html(note(labels.residue_text(inside), data_residue=number))


def _show_reports(
    found: tuple[Sequence[StoreReport | WithheldValue], list[ListedAlert]], alerts: StoreAlerts
) -> None:
    reports, listed = found
    place_of = place_of_day(alerts.period, alerts.chosen)
    with ui.element("section").classes("t-reports").props('aria-labelledby="reports"'):
        for shape, report in zip(loader.reports().values(), reports, strict=True):
            with ui.element("article").classes("t-panel t-report"):
                # A report only marks alerts on its own metric; otherwise ten charts would repeat
                # all marks.
                metric_alerts = [alert for alert in listed if alert.metric == shape.metric]
                marks = (metric_alerts, place_of, alerts.chosen)
                _show_report(shape, report, marks, alerts.period)


def _show_report(
    shape: ReportShape, found: StoreReport | WithheldValue, marks: ChartAlerts, period: Period
) -> None:
    chosen = marks[2]
    compared = found if isinstance(found, WithheldValue) else found.comparison
    style = _report_style(found, chosen)
    state = report_chip(number_state(compared))
    html(
        element("div", element("h3", shape.title), state, class_="t-line")
        + subtitle(shape.data_source)
        + figure(shape.id, compared, style, period)
    )
    # An empty chart would say no more than the dash above it, so it is left out.
    if isinstance(found, StoreReport):
        if report_figures.has_chart(found):
            options = report_figures.report_chart(found, style, is_small=True)
            label = report_figures.describe_chart(found)
            # A window has a place only on an axis of days.
            if shape.pivot == "day":
                show_alert_chart(options, label, marks, "t-small")
            else:
                chart(options, label, "t-small")
        if found.companion is not None:
            html(note(f"{found.companion.name}: ", beside_value(found.companion)))
        if left := report_figures.remainder_text(found, style):
            html(note(left))
    address = report_address(shape.id, chosen.store.store_id, period)
    unseen = span(f" of {shape.title}", class_="t-unseen")
    html(
        element("p", shape.how_to_read, class_="t-read")
        + link(address, "Table and details", unseen, class_="t-more")
    )


def _report_style(found: StoreReport | WithheldValue, chosen: StoreChoice) -> UnitStyle:
    if isinstance(found, WithheldValue):
        return UnitStyle("", chosen.store.currency)
    # Money without a currency gets the store's.
    currency = found.comparison.currency or chosen.store.currency
    return UnitStyle(found.comparison.unit, currency)


async def show_report(source: FigureSource, shape: ReportShape, selection: PageSelection) -> None:
    """Draw the page of one report."""
    chosen, period = selection.chosen, selection.period
    address = partial(report_address, shape.id)
    heading = f"{shape.title} · {chosen.label}"
    show_frame(Frame("report", heading, period, address, chosen, selection.stores))
    with ui.element("main").classes("t-body"):
        load = partial(source.reports, [shape], chosen.store, period)
        draw = partial(_show, shape=shape, chosen=chosen, period=period)
        await keep_current(load, draw, REPORTS_REFRESH_SECONDS)
        html(report_links(chosen.store.store_id, period, shape.id))


def report_links(store_id: str, period: Period, current: str = "") -> Markup:
    """The links to every report of a store; `current` is the report being shown."""
    links = []
    for shape in loader.reports().values():
        is_current = "page" if shape.id == current else None
        address = report_address(shape.id, store_id, period)
        links.append(link(address, shape.title, aria_current=is_current))
    return element("nav", *links, class_="t-links", aria_label="Reports")


def _show(
    reports: Sequence[StoreReport | WithheldValue],
    shape: ReportShape,
    chosen: StoreChoice,
    period: Period,
) -> None:
    (found,) = reports
    # A withheld report has a state and a reason, but nothing to draw.
    compared = found if isinstance(found, WithheldValue) else found.comparison
    style = _report_style(found, chosen)
    with panel(label="The report"):
        html(
            element("div", report_chip(number_state(compared)), class_="t-line")
            + element("div", figure(shape.id, compared, style, period), class_="t-large")
            + element("p", shape.how_to_read, class_="t-read")
        )
        if isinstance(found, StoreReport) and report_figures.has_chart(found):
            # Stacked horizontal bars need the height of their names: the usual one is for ten.
            size = "t-tall" if shape.pivot == "item" and len(found.series) > 10 else ""
            options = report_figures.report_chart(found, style, is_small=False)
            chart(options, report_figures.describe_chart(found), size)
    with panel(label="What it stands on"):
        html(_facts(found, shape, chosen, period))
    if isinstance(found, StoreReport):
        pivot = report_figures.PIVOTS[shape.pivot].capitalize()
        title = element("h2", pivot, id="series")
        with panel(label="Table"):
            html(title + scroll(series_table(found, style), aria_labelledby="series"))


def _facts(
    found: StoreReport | WithheldValue, shape: ReportShape, chosen: StoreChoice, period: Period
) -> Markup:
    values: dict[str, Content] = {"Data source": shape.data_source}
    if isinstance(found, StoreReport):
        compared, zone = found.comparison, found.request.zone
        through = format_instant(compared.through, zone) if compared.through else ""
        values["What it is worth"] = report_figures.quality_text(compared)
        text = report_figures.through_text(compared, zone)
        values["Everything counted that had arrived by"] = span(text, data_through=through)
        if left := report_figures.remainder_text(found, _report_style(found, chosen)):
            values["In no item"] = left
        if found.companion is not None:
            values[found.companion.name] = beside_value(found.companion)
    address = answer_address(shape.id, chosen.store.store_id, period)
    values["The same numbers by HTTP"] = markup.api_link(address)
    return markup.facts(values)
