"""The charts of reports as ECharts options, one kind for each pivot."""

from typing import Any

from serving.reports.items import ItemEntry
from serving.reports.report import StoreReport
from serving.reports.series import DayEntry, HourEntry, StayEntry
from web.dashboard.reports.labels import STATES
from web.dashboard.shared.charts import (
    BATCH,
    INK,
    LINE,
    MISSING,
    QUIET,
    Options,
    axis_name_options,
    common,
    heat_map,
)
from web.dashboard.shared.unit_style import UnitStyle

PIVOTS = {
    "day": "by day",
    "hour_of_week": "by hour of the week",
    "stay_time": "by stay time",
    "item": "by item",
}
# The number of article bars that a panel has room for.
_SMALL_ITEMS = 6


def report_chart(report: StoreReport, style: UnitStyle, is_small: bool) -> Options:
    """The chart of a report; a small one has no room for the name of the axis below."""
    # Chosen by the type of the entries instead of the pivot's name: each type has its own chart.
    days = [entry for entry in report.series if isinstance(entry, DayEntry)]
    hours = [entry for entry in report.series if isinstance(entry, HourEntry)]
    stays = [entry for entry in report.series if isinstance(entry, StayEntry)]
    items = [entry for entry in report.series if isinstance(entry, ItemEntry)]
    if items:
        options = _by_item([*items[:_SMALL_ITEMS]] if is_small else items, style)
    elif hours:
        options = _by_hour_of_week(hours, style)
    elif stays:
        options = _by_stay_time(stays, style)
    else:
        options = _by_day(days, report, style)
    return _small(options) if is_small else options


def has_chart(report: StoreReport) -> bool:
    """Whether there is anything to draw."""
    return any(entry.value is not None for entry in report.series)


def describe_chart(report: StoreReport) -> str:
    """The chart in words, for screen readers."""
    known = sum(entry.value is not None for entry in report.series)
    word = STATES[report.comparison.state][1].lower()
    return (
        f"{report.shape.title}: chart {PIVOTS[report.shape.pivot]},"
        f" {known} of {len(report.series)} values known, {word}"
    )


def stay_text(entry: StayEntry) -> str:
    """A bin of stay times in minutes, as text.

    >>> stay_text(StayEntry(0, 5, 1)), stay_text(StayEntry(240, None, 1))
    ('0–5', '240+')
    """
    if entry.to_minutes is None:
        return f"{entry.from_minutes}+"
    return f"{entry.from_minutes}–{entry.to_minutes}"


def _by_day(entries: list[DayEntry], report: StoreReport, style: UnitStyle) -> Options:
    starts = [entry.day.start.astimezone(report.request.zone) for entry in entries]
    days = [f"{start:%a} {start.day} {start:%b}" for start in starts]
    before = {
        "type": "line",
        "name": f"{len(entries)} days before",
        "data": [style.axis_value(entry.previous) for entry in entries],
        # Dashed and with points, so that it differs from the bars even without colour.
        "lineStyle": {"color": INK, "width": 1.5, "type": "dashed"},
        "itemStyle": {"color": INK},
        "symbolSize": 3,
    }
    bars = _bars("these days", [style.axis_value(entry.value) for entry in entries])
    return {
        **_bar_frame(f"day ({report.request.tz})", days, style),
        "legend": {
            "top": 0,
            "right": 0,
            "itemWidth": 14,
            "itemHeight": 10,
            "textStyle": {"color": QUIET, "fontSize": 12},
        },
        "series": [bars, before],
    }


def _by_stay_time(entries: list[StayEntry], style: UnitStyle) -> Options:
    bins = [stay_text(entry) for entry in entries]
    bars = _bars("these days", [style.axis_value(entry.value) for entry in entries])
    return {**_bar_frame("minutes", bins, style), "series": [bars]}


def item_text(entry: ItemEntry) -> str:
    """The label of an entry: an article's or category's name, or how many others are summed up."""
    if entry.others is not None:
        return f"{entry.others:,} others"
    name = entry.item if entry.by == "item" else entry.category
    return name or "(no category)"


def _by_item(entries: list[ItemEntry], style: UnitStyle) -> Options:
    # The bars are horizontal and read from the top, because names are long and numbers short.
    frame = _bar_frame(style.axis, [item_text(entry) for entry in entries], style)
    names = {**frame["xAxis"], "inverse": True, "name": ""}
    names["axisLabel"] = {"color": QUIET, "width": 120, "overflow": "truncate", "interval": 0}
    amounts = {**frame["yAxis"], **axis_name_options(style.axis, 30)}
    values = [
        {
            "value": style.axis_value(entry.value),
            "label": {"formatter": style.text(entry.value)},
            # The sum of the others is grey: it is no article, and may be longer than all of them.
            "itemStyle": {"color": BATCH if entry.others is None else MISSING},
        }
        for entry in entries
    ]
    bars = {
        **_bars("these days", values),
        "label": {"show": True, "position": "right", "color": INK, "fontSize": 11},
    }
    grid = {**frame["grid"], "top": 8, "right": 76}
    return {**frame, "grid": grid, "xAxis": amounts, "yAxis": names, "series": [bars]}


def _by_hour_of_week(entries: list[HourEntry], style: UnitStyle) -> Options:
    points = [
        [entry.hour, entry.weekday - 1, style.axis_value(entry.value)]
        for entry in entries
        # An unknown hour is left out instead of drawn as 0, because it is not a quiet hour.
        if entry.value is not None
    ]
    # The maximum is taken from the exact values, because drawn values are rounded.
    values = [entry.value for entry in entries if entry.value is not None]
    most = max(values, default=0)
    behind = f" {style.word} an hour" if style.word else ""
    return heat_map(
        points,
        f"mean {style.axis} an hour" if style.word else style.axis,
        style.axis_value(most) or 0,
        f"{style.text(most)}{behind}",
    )


def _bar_frame(name: str, categories: list[str], style: UnitStyle) -> Options:
    """The axes, grid and tooltip of a bar chart."""
    return {
        **common(),
        "grid": {"left": 8, "right": 22, "top": 44, "bottom": 26, "containLabel": True},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "confine": True},
        "xAxis": {
            "type": "category",
            "data": categories,
            **axis_name_options(name, 30),
            "axisLabel": {"color": QUIET, "hideOverlap": True, "fontSize": 11},
            "axisTick": {"show": False},
            "axisLine": {"lineStyle": {"color": LINE}},
        },
        "yAxis": {
            "type": "value",
            "name": style.axis,
            "nameTextStyle": {"color": QUIET, "align": "left"},
            "axisLabel": {"color": QUIET, "hideOverlap": True},
            "splitLine": {"lineStyle": {"color": LINE}},
        },
    }


def _bars(name: str, values: list[Any]) -> Options:
    return {
        "type": "bar",
        "name": name,
        "data": values,
        "itemStyle": {"color": BATCH},
        "barMaxWidth": 34,
    }


def _small(options: Options) -> Options:
    """The chart without the name of the axis below, which only the report's page shows."""
    # A colour legend stays, because the darkest colour means nothing without it.
    bottom = 42 if "visualMap" in options else 2
    return {
        **options,
        "grid": {**options["grid"], "bottom": bottom},
        "xAxis": {**options["xAxis"], "name": ""},
    }
