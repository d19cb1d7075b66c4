"""The alerts of a store's days as marks above its charts.

They are read once for all charts. Each mark is over the place of the window that its alert was
first sent for.
"""

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
from web.dashboard.shared import charts
from web.dashboard.shared.addresses import Period, alert_address, inbox_address
from web.dashboard.shared.alert_labels import STATES, title_text, value_text, window_text
from web.dashboard.shared.markup import element
from web.dashboard.shared.source import StoreChoice

# The panels of a page are refreshed within moments of each other and share one read.
_CACHE_SECONDS = 10.0
_ONE_DAY = timedelta(days=1)
_Loaded = TypeVar("_Loaded")


@dataclass
class StoreAlerts:
    """The alerts of one store whose windows lie in the period or on the day after it."""

    alert_queries: AlertQueryService
    chosen: StoreChoice
    period: Period
    clock: Callable[[], float] = time.monotonic
    _cache: tuple[float, list[ListedAlert]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()

    async def load_with_alerts(
        self, load: Callable[[], Awaitable[_Loaded]]
    ) -> tuple[_Loaded, list[ListedAlert]]:
        """The loaded value, and the alerts, newest first. Raises what loading and reading raise."""
        loaded, alerts = await asyncio.gather(load(), self._alerts())
        return loaded, alerts

    def filter_period(self, alerts: list[ListedAlert]) -> list[ListedAlert]:
        """The alerts whose windows lie in the period itself."""
        start, end = self.period.store_span(self.chosen.store)
        return [alert for alert in alerts if start <= window_start(alert) < end]

    async def _alerts(self) -> list[ListedAlert]:
        async with self._lock:
            if self._cache is not None and self.clock() - self._cache[0] < _CACHE_SECONDS:
                return self._cache[1]
            start, end = self.period.store_span(self.chosen.store)
            # A store's day may begin hours after midnight and end in the next day.
            span = TimeRange(start, end + _ONE_DAY)
            store_id, now = self.chosen.store.store_id, datetime.now(UTC)
            found = await self.alert_queries.read_windows(store_id, span, now)
            self._cache = self.clock(), found
            return found


# Maps the start of a window (UTC) to its place on the axis, or None if it has no place.
PlaceLookup = Callable[[datetime], int | None]
# The rows of marks above one place; further alerts of the place are shown as a count.
_MAX_ROWS, _ROW_PIXELS, _SIZE = 3, 15, 11
_NAME_PIXELS = 14
# The same colours as the severity chips; grey is used for retracted alerts only.
SEVERITY_COLOURS = {"critical": "#a3322a", "warning": "#8a5a00", "info": "#0072b2"}
_PAPER = "#ffffff"
# A ring with a stroke through it, which differs from a triangle even without colour.
_STRUCK = "path://M8,0A8,8,0,1,0,8,16A8,8,0,1,0,8,0ZM2.5,13.5L13.5,2.5"
_DAYS_OF_MORE = 7


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
    columns = (_column(place, column_alerts) for place, column_alerts in sorted(by_place.items()))
    return [mark for column in columns for mark in column]


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
        "yAxis": [{**axis, "nameGap": _NAME_PIXELS + rows * _ROW_PIXELS} for axis in axes],
        "series": [*options["series"], strip],
    }


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
    if len(alerts) <= _MAX_ROWS:
        yield from (AlertMark(place, row, alert) for row, alert in enumerate(alerts))
        return
    shown, hidden = alerts[: _MAX_ROWS - 1], alerts[_MAX_ROWS - 1 :]
    yield from (AlertMark(place, row, alert) for row, alert in enumerate(shown))
    yield AlertMark(place, _MAX_ROWS - 1, hidden[0], len(hidden))


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
    filled = colour if alert.state == "confirmed" else _PAPER
    return {
        "symbol": "triangle",
        "symbolSize": _SIZE,
        # The triangle points up where an alert is raised, and down where it ends.
        "symbolRotate": 180 if alert.edge == "clear" else 0,
        "itemStyle": {"color": filled, "borderColor": colour, "borderWidth": 2},
    }


def _number(mark: AlertMark) -> charts.Options:
    label = {"show": True, "formatter": f"+{mark.more}", "color": charts.INK, "fontSize": 11}
    return {
        "symbol": "rect",
        "symbolSize": [22, 13],
        "itemStyle": {"color": charts.LINE},
        "label": label,
    }


def _tooltip_html(mark: AlertMark, choice: StoreChoice) -> Markup:
    """The tooltip of a mark."""
    if mark.more:
        return escape(f"{mark.more:,} further alerts of this place: a click shows all")
    alert, zone = mark.alert, choice.store.zone
    _, sign, word = STATES[alert.state]
    # A retracted alert's title is struck through, like its mark.
    weight = "s" if alert.state == "retracted" else "b"
    lines = (
        element(weight, f"{title_text(alert)} · {alert.severity}"),
        f"{sign} {word}",
        value_text(alert, choice.store.currency),
        window_text(alert, zone),
    )
    return Markup("<br>").join(lines)


def _link(mark: AlertMark, choice: StoreChoice) -> str:
    if not mark.more:
        return alert_address(mark.alert.alert_id)
    day = choice.store.clock.day(window_start(mark.alert))
    return inbox_address(Period(day, _DAYS_OF_MORE), choice.store.store_id)
