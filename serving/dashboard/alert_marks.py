"""Alerts as marks above a chart, each over the place of the window that it was first told of."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from typing import NamedTuple

from serving.alerts.inquiry import ListedAlert, window_start
from serving.dashboard import charts
from serving.dashboard.addresses import alert_address, inbox_address
from serving.dashboard.alert_labels import STATES, title_text, value_text, window_text
from serving.dashboard.period import Period
from serving.dashboard.source import StoreChoice

# The place on an axis of what begins at an instant (UTC); None where it has none.
PlaceOf = Callable[[datetime], int | None]
# One above the other; what is more of one place is a number.
_MOST_ROWS, _ROW_PIXELS, _SIZE = 3, 15, 11
_NAME_PIXELS = 14
# As the chips of the style have them; a further grey would be that of what was taken back.
SEVERITY_COLOURS = {"critical": "#a3322a", "warning": "#8a5a00", "info": "#0072b2"}
_PAPER = "#ffffff"
# A ring with a stroke through it: in grey as well it is no triangle.
_STRUCK = "path://M8,0A8,8,0,1,0,8,16A8,8,0,1,0,8,0ZM2.5,13.5L13.5,2.5"
_DAYS_OF_MORE = 7


class AlertMark(NamedTuple):
    """One mark: over a place of the axis from 0 on, in a row from the chart upward from 0 on.

    `more`: how many further alerts of the place it stands for; then it is of these.
    """

    place: int
    row: int
    alert: ListedAlert
    more: int = 0


def placed_marks(alerts: Iterable[ListedAlert], place_of: PlaceOf) -> list[AlertMark]:
    """The marks of the alerts that have a place, by place; the gravest lie next to the chart."""
    by_place: dict[int, list[ListedAlert]] = defaultdict(list)
    for one in sorted(alerts, key=_gravest_first):
        place = place_of(window_start(one))
        if place is not None:
            by_place[place].append(one)
    columns = (_column(place, found) for place, found in sorted(by_place.items()))
    return [mark for column in columns for mark in column]


def marked(options: charts.Options, marks: Sequence[AlertMark], of: StoreChoice) -> charts.Options:
    """The chart with a strip above it that holds the marks; without any it stays as it is."""
    if not marks:
        return options
    rows = 1 + max(one.row for one in marks)
    grid = options["grid"]
    top = grid["top"] + rows * _ROW_PIXELS
    # A series of its own: with the legend one takes away what stands above, and nothing else.
    # Marks in the plot itself would never be told of: there the tooltip is that of the axis.
    strip = {
        "type": "scatter",
        "name": "alerts",
        "data": [],
        "itemStyle": {"color": SEVERITY_COLOURS["warning"]},
        "markPoint": {"data": [_point(one, top, of) for one in marks]},
    }
    axes = options["yAxis"] if isinstance(options["yAxis"], list) else [options["yAxis"]]
    return {
        **options,
        "grid": {**grid, "top": top},
        # The name of the axis stands above it: above the strip too.
        "yAxis": [{**axis, "nameGap": _NAME_PIXELS + rows * _ROW_PIXELS} for axis in axes],
        "series": [*options["series"], strip],
    }


def mark_links(marks: Iterable[AlertMark], of: StoreChoice) -> list[str]:
    """Where each mark leads: to the life of its alert, or to the inbox of the days."""
    return [_link(one, of) for one in marks]


def described_marks(marks: Sequence[AlertMark]) -> str:
    """How many alerts are marked, for those who do not see them; empty where none is."""
    count = sum(one.more or 1 for one in marks)
    return f", {count:,} alert{'' if count == 1 else 's'} marked" if count else ""


def _gravest_first(alert: ListedAlert) -> tuple[bool, int, datetime, bool, str]:
    """What stands before what was taken back, then by severity, time, begin before end."""
    is_back, is_end = alert.state == "retracted", alert.edge == "clear"
    grades = [*SEVERITY_COLOURS]
    grade = grades.index(alert.severity) if alert.severity in grades else len(grades)
    return is_back, grade, window_start(alert), is_end, alert.alert_id


def _column(place: int, found: Sequence[ListedAlert]) -> Iterator[AlertMark]:
    if len(found) <= _MOST_ROWS:
        yield from (AlertMark(place, row, one) for row, one in enumerate(found))
        return
    shown, left = found[: _MOST_ROWS - 1], found[_MOST_ROWS - 1 :]
    yield from (AlertMark(place, row, one) for row, one in enumerate(shown))
    yield AlertMark(place, _MOST_ROWS - 1, left[0], len(left))


def _point(mark: AlertMark, top: int, of: StoreChoice) -> charts.Options:
    return {
        "coord": [mark.place, 0],
        # Pixels from above; the axis knows the other side alone.
        "y": top - _ROW_PIXELS // 2 - mark.row * _ROW_PIXELS,
        "name": "alert",
        **(_number(mark) if mark.more else _form(mark.alert)),
        # Of what stands outside of the plot, and not of all series of its place.
        "tooltip": {"trigger": "item", "formatter": _told(mark, of)},
    }


def _form(alert: ListedAlert) -> charts.Options:
    """The state by its form and filling, the severity by its colour."""
    colour = SEVERITY_COLOURS.get(alert.severity, charts.QUIET)
    if alert.state == "retracted":
        style = {"color": "transparent", "borderColor": charts.MISSING, "borderWidth": 1.5}
        return {"symbol": _STRUCK, "symbolSize": _SIZE, "itemStyle": style}
    filled = colour if alert.state == "confirmed" else _PAPER
    return {
        "symbol": "triangle",
        "symbolSize": _SIZE,
        # Upward it begins, downward it ends.
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


def _told(mark: AlertMark, of: StoreChoice) -> str:
    """What the tooltip says, as markup."""
    if mark.more:
        return f"{mark.more:,} further alerts of this place: a click shows all"
    alert, zone = mark.alert, of.store.zone
    _, sign, word = STATES[alert.state]
    lines = (
        f"{title_text(alert)} · {alert.severity}",
        f"{sign} {word}",
        value_text(alert, of.store.currency),
        window_text(alert, zone),
    )
    first, *others = (escape(line) for line in lines)
    # Struck, as the mark is.
    head = f"<s>{first}</s>" if alert.state == "retracted" else f"<b>{first}</b>"
    return "<br>".join([head, *others])


def _link(mark: AlertMark, of: StoreChoice) -> str:
    if not mark.more:
        return alert_address(mark.alert.alert_id)
    day = of.store.clock.day(window_start(mark.alert))
    return inbox_address(Period(day, _DAYS_OF_MORE), of.store.store_id)
