"""The page of a store: its sales, the persons inside, and a panel for each report."""

from collections.abc import Sequence
from functools import partial
from html import escape

from nicegui import ui

from alerting.queries.alerts import ListedAlert
from schemas import loader
from serving.reports.comparison import WithheldValue
from serving.reports.report import StoreReport
from tally.time.windows import WINDOW
from web.dashboard.alerts.marks import (
    PlaceLookup,
    add_marks,
    describe_marks,
    mark_links,
    place_marks,
)
from web.dashboard.alerts.markup import MARK_KEY, alert_table
from web.dashboard.alerts.store_alerts import StoreAlerts
from web.dashboard.reports.charts import describe_chart, has_chart, report_chart
from web.dashboard.reports.labels import number_state, remainder_text
from web.dashboard.reports.markup import beside_value, figure, state_chip
from web.dashboard.shared import charts, labels
from web.dashboard.shared.addresses import inbox_address, report_address, store_address
from web.dashboard.shared.figures import Figures
from web.dashboard.shared.frame import Frame, chart, html, keep_current, show_frame
from web.dashboard.shared.inside import Occupancy, day_state_text, occupancy_chart, residue_text
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import FigureSource, StoreChoice
from web.dashboard.shared.unit_style import UnitStyle

REFRESH_SECONDS = 30.0
_MAX_LISTED = 6
# Alerts, their places on the chart's axis, and the store by whose clock they are shown.
ChartAlerts = tuple[Sequence[ListedAlert], PlaceLookup, StoreChoice]
# The reports read all families, which is several times the work of the figures above them.
REPORTS_REFRESH_SECONDS = 120.0


async def show_store(
    source: FigureSource, stores: list[StoreChoice], chosen: StoreChoice, period: Period
) -> None:
    """Draw the page of a store."""
    show_frame(Frame("store", chosen.label, period, store_address, chosen, stores))
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
        html("<h2 class='t-heading' id='reports'>Reports</h2>")
        await keep_current(
            lambda: alerts.load_with_alerts(reports),
            partial(_show_reports, chosen=chosen, period=period),
            REPORTS_REFRESH_SECONDS,
        )


def _show_figures(
    found: tuple[Figures, list[ListedAlert]],
    alerts: StoreAlerts,
) -> None:
    figures, listed = found
    chosen, period = alerts.chosen, alerts.period
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
        with ui.element("article").classes("t-panel"):
            title, known = "Revenue by day", charts.describe_days(figures.days)
            html(f"<h2>{title}</h2><p class='t-sub'>{escape(known)}</p>")
            options = charts.revenue_by_day(figures, chosen.store.tz)
            show_alert_chart(options, title, (listed, place_of_day(period, chosen), chosen))
        with ui.element("article").classes("t-panel"):
            title = "Receipts by hour of the week"
            html(f"<h2>{title}</h2><p class='t-sub'>Mean number of receipts in each hour</p>")
            chart(charts.receipts_by_hour_of_week(figures), title)
    _show_alerts(alerts.filter_period(listed), chosen, period)
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


def _show_alerts(alerts: Sequence[ListedAlert], chosen: StoreChoice, period: Period) -> None:
    # The table serves readers who cannot see the marks or have no pointer.
    if not alerts:
        return
    store_id = chosen.store.store_id
    with ui.element("section").classes("t-panel").props('aria-labelledby="marked"'):
        html(
            f"<h2 id='marked'>Alerts of these days</h2>{MARK_KEY}"
            "<div class='t-scroll' role='region' aria-labelledby='marked' tabindex='0'>"
            f"{alert_table(alerts[:_MAX_LISTED], {store_id: chosen})}</div>"
        )
        address = escape(inbox_address(period, store_id))
        left = len(alerts) - _MAX_LISTED
        more = f"{left:,} more are in the inbox" if left > 0 else "Inbox of this store"
        html(f"<p class='t-known'><a href='{address}'>{more}</a></p>")


def _show_occupancy(
    found: tuple[Occupancy, list[ListedAlert]],
    chosen: StoreChoice,
) -> None:
    inside, alerts = found
    title = "Persons inside (by the counters)"
    residue = escape(residue_text(inside))
    number = "" if inside.residue is None else inside.residue
    with ui.element("section").classes("t-panel").props(f'aria-label="{title}"'):
        html(f"<h2>{title}</h2><p class='t-sub'>{escape(day_state_text(inside))}</p>")
        # For a day without any counter events, the line would suggest that the store was empty.
        if inside.is_counted:
            places = {end - WINDOW: place for place, (end, _) in enumerate(inside.levels)}
            show_alert_chart(
                occupancy_chart(inside), title, (alerts, places.get, chosen), "t-small"
            )
            html(f"<p class='t-known' data-residue='{number}'>{residue}</p>")


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
                own = [alert for alert in alerts if alert.metric == metric]
                _show_report(report_id, report, (own, place_of_day(period, chosen), chosen), period)


def _show_report(
    report_id: str, found: StoreReport | WithheldValue, marks: ChartAlerts, period: Period
) -> None:
    shape, chosen = loader.reports()[report_id], marks[2]
    compared = found if isinstance(found, WithheldValue) else found.comparison
    style = report_style(found, chosen)
    html(
        f"<div class='t-line'><h3>{escape(shape.title)}</h3>"
        f"{state_chip(number_state(compared))}</div>"
        f"<p class='t-sub'>{escape(shape.data_source)}</p>"
        f"{figure(report_id, compared, style, period)}"
    )
    # An empty chart would say no more than the dash above it.
    if isinstance(found, StoreReport) and has_chart(found):
        options = report_chart(found, style, is_small=True)
        # A window has a place only on an axis of days.
        if shape.pivot == "day":
            show_alert_chart(options, describe_chart(found), marks, "t-small")
        else:
            chart(options, describe_chart(found), "t-small")
    address = escape(report_address(report_id, chosen.store.store_id, period))
    if isinstance(found, StoreReport) and found.companion is not None:
        name = escape(found.companion.name)
        html(f"<p class='t-known'>{name}: {beside_value(found.companion)}</p>")
    if isinstance(found, StoreReport) and (left := remainder_text(found, style)):
        html(f"<p class='t-known'>{escape(left)}</p>")
    html(
        f"<p class='t-read'>{escape(shape.how_to_read)}</p><a class='t-more' href='{address}'>"
        f"Table and details<span class='t-unseen'> of {escape(shape.title)}</span></a>"
    )


def place_of_day(period: Period, chosen: StoreChoice) -> PlaceLookup:
    """A function from an instant to the number of its local day in the period, from 0."""
    days = {day: place for place, day in enumerate(period.days)}
    return lambda instant: days.get(chosen.store.clock.day(instant))


def show_alert_chart(
    options: charts.Options,
    label: str,
    marked_alerts: ChartAlerts,
    size: str = "",
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
