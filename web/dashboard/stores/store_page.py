"""The page of a store: its sales, the persons inside, and a panel for each report."""

from collections.abc import Sequence
from functools import partial

from nicegui import ui

from alerting.queries.alerts import ListedAlert
from schemas import loader
from serving.reports.comparison import WithheldValue
from serving.reports.report import StoreReport
from tally.time.windows import WINDOW
from web.dashboard.alerts.marks import (
    PlaceLookup,
    StoreAlerts,
    add_marks,
    describe_marks,
    mark_links,
    place_marks,
)
from web.dashboard.alerts.markup import MARK_KEY, alert_table
from web.dashboard.shared import charts, labels
from web.dashboard.shared.addresses import Period, inbox_address, report_address, store_address
from web.dashboard.shared.figures import Figures
from web.dashboard.shared.frame import Frame, chart, html, keep_current, panel, show_frame
from web.dashboard.shared.inside import Occupancy, day_state_text, occupancy_chart, residue_text
from web.dashboard.shared.labels import UnitStyle
from web.dashboard.shared.markup import element, foot, link, note, scroll, span, subtitle
from web.dashboard.shared.source import FigureSource, PageSelection, StoreChoice
from web.dashboard.stores.report_figures import (
    describe_chart,
    has_chart,
    number_state,
    remainder_text,
    report_chart,
)
from web.dashboard.stores.report_markup import beside_value, figure, report_chip

REFRESH_SECONDS = 30.0
_MAX_LISTED = 6
# Alerts, their places on the chart's axis, and the store by whose clock they are shown.
ChartAlerts = tuple[Sequence[ListedAlert], PlaceLookup, StoreChoice]
# The reports read all families, which is several times the work of the figures above them.
REPORTS_REFRESH_SECONDS = 120.0


async def show_store(source: FigureSource, selection: PageSelection) -> None:
    """Draw the page of a store."""
    chosen, period = selection.chosen, selection.period
    show_frame(Frame("store", chosen.label, period, store_address, chosen, selection.stores))
    alerts = StoreAlerts(source.alerts, chosen, period)
    figures = partial(source.figures, chosen.store, period)
    inside = partial(source.occupancy, chosen.store, period)
    reports = partial(source.reports, chosen.store, period)
    with ui.element("main").classes("t-body"):
        await keep_current(
            lambda: alerts.load_with_alerts(figures),
            partial(_show_figures, alerts=alerts),
            REFRESH_SECONDS,
        )
        await keep_current(
            lambda: alerts.load_with_alerts(inside),
            partial(_show_occupancy, chosen=chosen),
            REFRESH_SECONDS,
        )
        # Reports are loaded apart from the figures, which are refreshed more often.
        html(element("h2", "Reports", class_="t-heading", id="reports"))
        await keep_current(
            lambda: alerts.load_with_alerts(reports),
            partial(_show_reports, chosen=chosen, period=period),
            REPORTS_REFRESH_SECONDS,
        )


def _show_figures(found: tuple[Figures, list[ListedAlert]], alerts: StoreAlerts) -> None:
    figures, listed = found
    chosen, period = alerts.chosen, alerts.period
    _show_coverage(figures)
    with ui.element("section").classes("t-cards").props('aria-label="Sums of the period"'):
        for card in figures.cards:
            unit = span(labels.unit_text(card, figures.currency), class_="t-unit")
            value = element(
                "div", labels.value_text(card, figures.currency), unit, class_="t-value"
            )
            change = labels.change_text(card, period, figures.compared_quarters)
            html(
                element(
                    "article",
                    element("h2", labels.TITLES[card.metric]),
                    value,
                    element("div", change, class_="t-change"),
                    class_="t-card",
                )
            )
    with ui.element("section").classes("t-panels").props('aria-label="Charts of the period"'):
        with ui.element("article").classes("t-panel"):
            title, days = "Revenue by day", charts.describe_days(figures.days)
            html(element("h2", title) + subtitle(days))
            options = charts.revenue_by_day(figures, chosen.store.tz)
            show_alert_chart(options, title, (listed, place_of_day(period, chosen), chosen))
        with ui.element("article").classes("t-panel"):
            title = "Receipts by hour of the week"
            html(element("h2", title) + subtitle("Mean number of receipts in each hour"))
            chart(charts.receipts_by_hour_of_week(figures), title)
    _show_alerts(alerts.filter_period(listed), chosen, period)
    html(foot(f"{labels.note_text(figures)} The same numbers by HTTP: /v1/metrics"))


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
        shown = alert_table(alerts[:_MAX_LISTED], {store_id: chosen})
        html(
            element("h2", "Alerts of these days", id="marked")
            + MARK_KEY
            + scroll(shown, aria_labelledby="marked")
        )
        left = len(alerts) - _MAX_LISTED
        more = f"{left:,} more are in the inbox" if left > 0 else "Inbox of this store"
        html(note(link(inbox_address(period, store_id), more)))


def _show_occupancy(found: tuple[Occupancy, list[ListedAlert]], chosen: StoreChoice) -> None:
    inside, alerts = found
    title = "Persons inside (by the counters)"
    number = "" if inside.residue is None else inside.residue
    with panel(label=title):
        html(element("h2", title) + subtitle(day_state_text(inside)))
        # For a day without any counter events, the line would suggest that the store was empty.
        if inside.is_counted:
            places = {end - WINDOW: place for place, (end, _) in enumerate(inside.levels)}
            show_alert_chart(
                occupancy_chart(inside), title, (alerts, places.get, chosen), "t-small"
            )
            html(note(residue_text(inside), data_residue=number))


def _show_reports(
    found: tuple[Sequence[StoreReport | WithheldValue], list[ListedAlert]],
    chosen: StoreChoice,
    period: Period,
) -> None:
    reports, alerts = found
    with ui.element("section").classes("t-reports").props('aria-labelledby="reports"'):
        for report_id, report in zip(loader.reports(), reports, strict=True):
            with ui.element("article").classes("t-panel t-report"):
                # A report only marks alerts on its own metric; otherwise ten charts would repeat
                # all marks.
                metric = loader.reports()[report_id].metric
                metric_alerts = [alert for alert in alerts if alert.metric == metric]
                _show_report(
                    report_id, report, (metric_alerts, place_of_day(period, chosen), chosen), period
                )


def _show_report(
    report_id: str, found: StoreReport | WithheldValue, marks: ChartAlerts, period: Period
) -> None:
    shape, chosen = loader.reports()[report_id], marks[2]
    compared = found if isinstance(found, WithheldValue) else found.comparison
    style = report_style(found, chosen)
    state = report_chip(number_state(compared))
    html(
        element("div", element("h3", shape.title), state, class_="t-line")
        + subtitle(shape.data_source)
        + figure(report_id, compared, style, period)
    )
    # An empty chart would say no more than the dash above it.
    if isinstance(found, StoreReport) and has_chart(found):
        options = report_chart(found, style, is_small=True)
        # A window has a place only on an axis of days.
        if shape.pivot == "day":
            show_alert_chart(options, describe_chart(found), marks, "t-small")
        else:
            chart(options, describe_chart(found), "t-small")
    if isinstance(found, StoreReport) and found.companion is not None:
        html(note(f"{found.companion.name}: ", beside_value(found.companion)))
    if isinstance(found, StoreReport) and (left := remainder_text(found, style)):
        html(note(left))
    address = report_address(report_id, chosen.store.store_id, period)
    unseen = span(f" of {shape.title}", class_="t-unseen")
    html(
        element("p", shape.how_to_read, class_="t-read")
        + link(address, "Table and details", unseen, class_="t-more")
    )


def place_of_day(period: Period, chosen: StoreChoice) -> PlaceLookup:
    """A function from an instant to the number of its local day in the period, from 0."""
    days = {day: place for place, day in enumerate(period.days)}
    return lambda instant: days.get(chosen.store.clock.day(instant))


def show_alert_chart(
    options: charts.Options, label: str, marked_alerts: ChartAlerts, size: str = ""
) -> None:
    """Draw a chart with alert marks above it, each of which links to its alert's page."""
    alerts, place_of, chosen = marked_alerts
    marks = place_marks(alerts, place_of)
    links = mark_links(marks, chosen)
    chart(add_marks(options, marks, chosen), f"{label}{describe_marks(marks)}", size, links)


def report_style(found: StoreReport | WithheldValue, chosen: StoreChoice) -> UnitStyle:
    """The unit style of a report's numbers; money without a currency gets the store's."""
    if isinstance(found, WithheldValue):
        return UnitStyle("", chosen.store.currency)
    currency = found.comparison.currency or chosen.store.currency
    return UnitStyle(found.comparison.unit, currency)
