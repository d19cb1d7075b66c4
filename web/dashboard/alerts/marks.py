"""The alerts of a store's days as marks above its charts, each where its first window is."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

from markupsafe import Markup, escape

from alerting.queries.alerts import AlertQueryService, ListedAlert, window_start
from tally.time.windows import TimeRange
from web.dashboard.alerts.markup import STATES, title_text, value_text, window_text
from web.dashboard.shared import charts
from web.dashboard.shared.addresses import Period, alert_address, inbox_address
from web.dashboard.shared.frame import chart
from web.dashboard.shared.markup import element
from web.dashboard.shared.source import StoreChoice

# The panels of a page are refreshed within moments of each other and share one read.
_CACHE_SECONDS = 10.0
_Loaded = TypeVar("_Loaded")


@dataclass
class StoreAlerts:
    """The alerts of one store whose windows lie in the period or on the day after it."""

    alert_queries: AlertQueryService
    chosen: StoreChoice
    period: Period
    clock: Callable[[], float] = time.monotonic
    _cache: tuple[float, list[ListedAlert]] | None = field(default=None, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def load_with(
        self, load: Callable[[], Awaitable[_Loaded]]
    ) -> tuple[_Loaded, list[ListedAlert]]:
        """The loaded value, and the alerts, newest first. Raises what loading and reading raise."""
        loaded, alerts = await asyncio.gather(load(), self._alerts())
        return loaded, alerts

    def filter_period(self, alerts: list[ListedAlert]) -> list[ListedAlert]:
        """The alerts whose windows lie in the period itself."""
        start, end = self.period.span(self.chosen.store.clock)
        return [alert for alert in alerts if start <= window_start(alert) < end]

    async def _alerts(self) -> list[ListedAlert]:
        async with self._lock:
            if self._cache is not None and self.clock() - self._cache[0] < _CACHE_SECONDS:
                return self._cache[1]
            store, now = self.chosen.store, datetime.now(UTC)
            start, end = self.period.span(store.clock)
            # A store's day may begin hours after midnight and end in the next day.
            span = TimeRange(start, end + timedelta(days=1))
            found = await self.alert_queries.read_windows(store.store_id, span, now)
            self._cache = self.clock(), found
            return found


# Maps the start of a window (UTC) to its place on the axis, or None if it has no place.
PlaceLookup = Callable[[datetime], int | None]
# The rows of marks above one place; further alerts of the place are shown as a count.
_MAX_ROWS, _ROW_PIXELS, _SIZE = 3, 15, 11
# The same colours as the severity chips; grey is used for retracted alerts only.
SEVERITY_COLOURS = {"critical": "#a3322a", "warning": "#8a5a00", "info": "#0072b2"}
# A ring with a stroke through it, which differs from a triangle even without colour.
_STRUCK = "path://M8,0A8,8,0,1,0,8,16A8,8,0,1,0,8,0ZM2.5,13.5L13.5,2.5"


class AlertMark(NamedTuple):
    """One mark above a chart, at a place of the axis and in a row; both count from 0.

    Rows count from the chart upward. `more`: how many further alerts of the place the mark stands
    for, if it is a count; `alert` is then the first of them.
    """

    place: int
    row: int
    alert: ListedAlert
    more: int = 0


def place_marks(alerts: Iterable[ListedAlert], place_of: PlaceLookup) -> list[AlertMark]:
    """The marks of alerts that have a place, by place; the most severe are next to the chart."""
    by_place: dict[int, list[ListedAlert]] = defaultdict(list)
    for alert in sorted(alerts, key=_severest_first):
        place = place_of(window_start(alert))
        if place is not None:
            by_place[place].append(alert)
    return [mark for place in sorted(by_place) for mark in _column(place, by_place[place])]


def add_marks(
    options: charts.Options, marks: Sequence[AlertMark], choice: StoreChoice
) -> charts.Options:
    """The chart with a strip of marks above it; without marks the chart is returned unchanged."""
    if not marks:
        return options
    rows = 1 + max(mark.row for mark in marks)
    grid = options["grid"]
    top = grid["top"] + rows * _ROW_PIXELS
    # The strip is a series of its own, so that its legend entry hides the marks and nothing else.
    # Marks inside the plot would never show a tooltip: there the axis's tooltip is shown instead.
    strip = {
        "type": "scatter",
        "name": "alerts",
        "data": [],
        "itemStyle": {"color": SEVERITY_COLOURS["warning"]},
        "markPoint": {"data": [_point(mark, top, choice) for mark in marks]},
    }
    axes = options["yAxis"] if isinstance(options["yAxis"], list) else [options["yAxis"]]
    return {
        **options,
        "grid": {**grid, "top": top},
        # The axis's name stands above the axis, so it has to move above the strip.
        "yAxis": [{**axis, "nameGap": 14 + rows * _ROW_PIXELS} for axis in axes],
        "series": [*options["series"], strip],
    }


# Alerts, their places on the chart's axis, and the store by whose clock they are shown.
ChartAlerts = tuple[Sequence[ListedAlert], PlaceLookup, StoreChoice]


def show_alert_chart(
    options: charts.Options, label: str, marked_alerts: ChartAlerts, size: str = ""
) -> None:
    """Draw a chart with alert marks above it, each of which links to its alert's page."""
    alerts, place_of, chosen = marked_alerts
    marks = place_marks(alerts, place_of)
    links = mark_links(marks, chosen)
    chart(add_marks(options, marks, chosen), f"{label}{describe_marks(marks)}", size, links)


def place_of_day(period: Period, chosen: StoreChoice) -> PlaceLookup:
    """A function from an instant to the number of its local day in the period, from 0."""
    days = {day: place for place, day in enumerate(period.days)}
    return lambda instant: days.get(chosen.store.clock.day(instant))


def mark_links(marks: Iterable[AlertMark], choice: StoreChoice) -> list[str]:
    """The address that each mark leads to: its alert's page, or the inbox for a count of alerts."""
    return [_link(mark, choice) for mark in marks]


def describe_marks(marks: Sequence[AlertMark]) -> str:
    """How many alerts are marked, as text for screen readers; empty if there are none."""
    count = sum(mark.more or 1 for mark in marks)
    return f", {count:,} alert{'' if count == 1 else 's'} marked" if count else ""


def _severest_first(alert: ListedAlert) -> tuple[bool, int, datetime, bool, str]:
    """The sort key: retracted alerts last, then by severity, window start, raise before clear."""
    is_retracted, is_clear = alert.state == "retracted", alert.edge == "clear"
    grades = [*SEVERITY_COLOURS]
    grade = grades.index(alert.severity) if alert.severity in grades else len(grades)
    return is_retracted, grade, window_start(alert), is_clear, alert.alert_id


def _column(place: int, alerts: Sequence[ListedAlert]) -> Iterator[AlertMark]:
    shown = len(alerts) if len(alerts) <= _MAX_ROWS else _MAX_ROWS - 1
    yield from (AlertMark(place, row, alert) for row, alert in enumerate(alerts[:shown]))
    if hidden := alerts[shown:]:
        yield AlertMark(place, shown, hidden[0], len(hidden))


def _point(mark: AlertMark, top: int, choice: StoreChoice) -> charts.Options:
    return {
        "coord": [mark.place, 0],
        # Pixels from the top; the axis only determines the place in the other direction.
        "y": top - _ROW_PIXELS // 2 - mark.row * _ROW_PIXELS,
        "name": "alert",
        **(_number(mark) if mark.more else _form(mark.alert)),
        # The mark's own tooltip, instead of the axis's tooltip with all series of the place.
        "tooltip": {"trigger": "item", "formatter": str(_tooltip_html(mark, choice))},
    }


def _form(alert: ListedAlert) -> charts.Options:
    """The mark's look: form and fill show the alert's state, colour shows its severity."""
    colour = SEVERITY_COLOURS.get(alert.severity, charts.QUIET)
    if alert.state == "retracted":
        style = {"color": "transparent", "borderColor": charts.MISSING, "borderWidth": 1.5}
        return {"symbol": _STRUCK, "symbolSize": _SIZE, "itemStyle": style}
    filled = colour if alert.state == "confirmed" else "#ffffff"
    return {
        "symbol": "triangle",
        "symbolSize": _SIZE,
        # The triangle points up where an alert is raised, and down where it ends.
        "symbolRotate": 180 if alert.edge == "clear" else 0,
        "itemStyle": {"color": filled, "borderColor": colour, "borderWidth": 2},
    }


def _number(mark: AlertMark) -> charts.Options:
    label = {"show": True, "formatter": f"+{mark.more}", "color": charts.INK, "fontSize": 11}
    form = {"symbol": "rect", "symbolSize": [22, 13], "itemStyle": {"color": charts.LINE}}
    return {**form, "label": label}


def _tooltip_html(mark: AlertMark, choice: StoreChoice) -> Markup:
    if mark.more:
        return escape(f"{mark.more:,} further alerts of this place: a click shows all")
    alert, zone = mark.alert, choice.store.zone
    _, sign, word = STATES[alert.state]
    # A retracted alert's title is struck through, like its mark.
    weight = "s" if alert.state == "retracted" else "b"
    title = element(weight, f"{title_text(alert)} · {alert.severity}")
    number, window = value_text(alert, choice.store.currency), window_text(alert, zone)
    return Markup("<br>").join((title, f"{sign} {word}", number, window))


def _link(mark: AlertMark, choice: StoreChoice) -> str:
    if not mark.more:
        return alert_address(mark.alert.alert_id)
    day = choice.store.clock.day(window_start(mark.alert))
    return inbox_address(Period(day, 7), choice.store.store_id)
