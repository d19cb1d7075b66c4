"""A report's series as ECharts options, by its pivot."""

from typing import Any

from serving.dashboard.charts import (
    BATCH,
    INK,
    LINE,
    MISSING,
    QUIET,
    Options,
    common,
    heat_map,
    named,
)
from serving.dashboard.report_labels import STATES
from serving.dashboard.unit_style import UnitStyle
from serving.reports.items import ItemEntry
from serving.reports.report import StoreReport
from serving.reports.series import DayEntry, HourEntry, StayEntry

PIVOTS = {
    "day": "by day",
    "hour_of_week": "by hour of the week",
    "stay_time": "by stay time",
    "item": "by item",
}
# Bars of articles that a panel has room for.
_SMALL_ITEMS = 6


def report_chart(report: StoreReport, style: UnitStyle, is_small: bool) -> Options:
    """The chart of a report; a small one has no room for the name of the axis below."""
    # By what the entries are, and not by the name of the pivot: each kind has its chart.
    days = [one for one in report.series if isinstance(one, DayEntry)]
    hours = [one for one in report.series if isinstance(one, HourEntry)]
    stays = [one for one in report.series if isinstance(one, StayEntry)]
    items = [one for one in report.series if isinstance(one, ItemEntry)]
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
    return any(one.value is not None for one in report.series)


def describe_chart(report: StoreReport) -> str:
    """The chart in words, for those who do not see it."""
    known = sum(one.value is not None for one in report.series)
    word = STATES[report.comparison.state][1].lower()
    return (
        f"{report.shape.title}: chart {PIVOTS[report.shape.pivot]},"
        f" {known} of {len(report.series)} values known, {word}"
    )


def stay_text(entry: StayEntry) -> str:
    """A bin of stay times in minutes.

    >>> stay_text(StayEntry(0, 5, 1)), stay_text(StayEntry(240, None, 1))
    ('0–5', '240+')
    """
    if entry.to_minutes is None:
        return f"{entry.from_minutes}+"
    return f"{entry.from_minutes}–{entry.to_minutes}"


def _by_day(entries: list[DayEntry], report: StoreReport, style: UnitStyle) -> Options:
    starts = [one.day.start.astimezone(report.asked.zone) for one in entries]
    days = [f"{start:%a} {start.day} {start:%b}" for start in starts]
    before = {
        "type": "line",
        "name": f"{len(entries)} days before",
        "data": [style.drawn(one.previous) for one in entries],
        # Dashed and with points: it stays apart from the bars in grey as well.
        "lineStyle": {"color": INK, "width": 1.5, "type": "dashed"},
        "itemStyle": {"color": INK},
        "symbolSize": 3,
    }
    bars = _bars("these days", [style.drawn(one.value) for one in entries])
    return {
        **_framed(f"day ({report.asked.tz})", days, style),
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
    bins = [stay_text(one) for one in entries]
    bars = _bars("these days", [style.drawn(one.value) for one in entries])
    return {**_framed("minutes", bins, style), "series": [bars]}


def item_text(entry: ItemEntry) -> str:
    """An article by its name, a category by its own, and what is summed up by how many it is."""
    if entry.others is not None:
        return f"{entry.others:,} others"
    name = entry.item if entry.by == "item" else entry.category
    return name or "(no category)"


def _by_item(entries: list[ItemEntry], style: UnitStyle) -> Options:
    # A name is long and a number short: bars lie, and are read from above.
    framed = _framed(style.axis, [item_text(one) for one in entries], style)
    names = {**framed["xAxis"], "inverse": True, "name": ""}
    names["axisLabel"] = {"color": QUIET, "width": 120, "overflow": "truncate", "interval": 0}
    amounts = {**framed["yAxis"], **named(style.axis, 30)}
    values = [
        {
            "value": style.drawn(one.value),
            "label": {"formatter": style.text(one.value)},
            # The rest is no article: it may be longer than all of them.
            "itemStyle": {"color": BATCH if one.others is None else MISSING},
        }
        for one in entries
    ]
    bars = {
        **_bars("these days", values),
        "label": {"show": True, "position": "right", "color": INK, "fontSize": 11},
    }
    grid = {**framed["grid"], "top": 8, "right": 76}
    return {**framed, "grid": grid, "xAxis": amounts, "yAxis": names, "series": [bars]}


def _by_hour_of_week(entries: list[HourEntry], style: UnitStyle) -> Options:
    points = [
        [one.hour, one.weekday - 1, style.drawn(one.value)]
        for one in entries
        # Left out and not 0: an hour that nobody knows is no quiet one.
        if one.value is not None
    ]
    # Of the values as they are: what is drawn has been rounded.
    values = [one.value for one in entries if one.value is not None]
    most = max(values, default=0)
    behind = f" {style.word} an hour" if style.word else ""
    return heat_map(
        points,
        f"mean {style.axis} an hour" if style.word else style.axis,
        style.drawn(most) or 0,
        f"{style.text(most)}{behind}",
    )


def _framed(name: str, categories: list[str], style: UnitStyle) -> Options:
    """Axes, grid and tooltip of bars."""
    return {
        **common(),
        "grid": {"left": 8, "right": 22, "top": 44, "bottom": 26, "containLabel": True},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "confine": True},
        "xAxis": {
            "type": "category",
            "data": categories,
            **named(name, 30),
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
    """Without the name of the axis below, which the report's page has."""
    # A legend of colours stays: without it nobody knows what the darkest is.
    bottom = 42 if "visualMap" in options else 2
    return {
        **options,
        "grid": {**options["grid"], "bottom": bottom},
        "xAxis": {**options["xAxis"], "name": ""},
    }
