"""The charts as ECharts options."""

from typing import Any

from tally.events.money import minor_digits
from web.dashboard.shared.figures import HOURS, Day, Figures, Occupancy

# The colours are by Okabe and Ito, which colour-blind people can distinguish; the bars of the speed
# layer are hatched as well.
BATCH, SPEED, MISSING = "#0072B2", "#E69F00", "#9AA3AE"
INK, QUIET, LINE = "#1d2733", "#5b6673", "#e3e7ec"
# One hue from light to dark, so that a higher value is darker in greyscale too.
HEAT = ["#f1f6fa", "#c6dcec", "#8fbbd9", "#4f94c0", "#0072B2", "#00476e"]
WEEKDAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HATCHED = {
    "symbol": "rect",
    "dashArrayX": [1, 0],
    "dashArrayY": [2, 4],
    "rotation": -0.785,
    "color": "rgba(255,255,255,0.55)",
}

SMALL = {"color": QUIET, "fontSize": 12}
BAR_LEGEND = {"top": 0, "itemWidth": 14, "itemHeight": 10, "textStyle": SMALL}
# What all charts share: no animation, the page's font, a description (ARIA).
_COMMON = {
    "animation": False,
    "textStyle": {"fontFamily": "inherit", "color": INK},
    "aria": {"enabled": True},
}
_GRID = {"left": 8, "right": 12, "top": 60, "bottom": 26, "containLabel": True}
Options = dict[str, Any]
Categories = list[str]


def revenue_by_day(figures: Figures, zone: str) -> Options:
    """Stacked bars of revenue by local day, batch below speed; a grey band without any number."""
    days = [f"{day.day:%a %-d %b}" for day in figures.days]
    # Major units only for drawing; sums are made in minor units.
    major = 10 ** minor_digits(figures.currency)
    batch = [None if day.batch is None else day.batch / major for day in figures.days]
    speed = [None if day.speed is None else day.speed / major for day in figures.days]
    missing = [1 if day.is_missing else None for day in figures.days]
    hidden_axis = {"type": "value", "show": False, "min": 0, "max": 1}
    provisional = {"color": SPEED, "decal": HATCHED}
    options = bar_axes(f"day ({zone})", days, f"revenue, {figures.currency}")
    return {
        **options,
        "legend": {**BAR_LEGEND, "left": 0, "itemGap": 14},
        # The grey bands are not revenue, so they have an axis of their own.
        "yAxis": [options["yAxis"], hidden_axis],
        "series": [
            bars("batch", batch, stack="known"),
            bars("speed (provisional)", speed, stack="known", itemStyle=provisional),
            bars(
                "missing",
                missing,
                stack="missing",
                yAxisIndex=1,
                barGap="-100%",
                tooltip={"show": False},
                itemStyle={"color": MISSING, "opacity": 0.35},
            ),
        ],
    }


def receipts_by_hour_of_week(figures: Figures) -> Options:
    """Heat map of mean receipts: hours across, weekdays down; white where none is known."""
    cells = [
        [hour, weekday, value]
        for weekday, row in enumerate(figures.heat)
        for hour, value in enumerate(row)
        # An unknown hour is left out instead of drawn as 0, because it is not a quiet hour.
        if value is not None
    ]
    most = max((cell[2] or 0 for cell in cells), default=0)
    return heat_map(cells, "mean receipts an hour", most, f"{most:g} receipts an hour")


def occupancy_chart(inside: Occupancy) -> Options:
    """A line chart by the store's clock, with a gap where the level is not known."""
    ends = [f"{end.astimezone(inside.store.zone):%H:%M}" for end, _ in inside.levels]
    return {
        **line_axes(f"until ({inside.store.tz})", ends, "persons", top=30),
        "series": [
            {
                "type": "line",
                # A step line, because a level belongs to an instant and there is none in between.
                "step": "end",
                "showSymbol": False,
                "lineStyle": {"color": BATCH},
                "itemStyle": {"color": BATCH},
                "data": [level for _, level in inside.levels],
            }
        ],
    }


def heat_map(cells: list[Any], name: str, most: float, most_text: str) -> Options:
    """Heat map of [hour, weekday, value], Monday first; `most`: value of the darkest colour."""
    hidden = {"show": False}
    axis = {"type": "category", "splitArea": hidden, "axisTick": hidden, "axisLine": hidden}
    return {
        **_COMMON,
        "grid": {"left": 8, "right": 12, "top": 12, "bottom": 78, "containLabel": True},
        "tooltip": {"confine": True},
        "xAxis": {
            **axis,
            "data": [f"{hour:02d}" for hour in range(HOURS)],
            **axis_name_options("hour of the day", 28),
            "axisLabel": {"color": QUIET, "interval": 2},
        },
        "yAxis": {
            **axis,
            "data": list(WEEKDAY_NAMES),
            "inverse": True,
            "axisLabel": {"color": QUIET},
        },
        "visualMap": {
            "min": 0,
            # Without any receipts the scale would run from 0 to 0.
            "max": most or 1,
            "calculable": False,
            "orient": "horizontal",
            "left": "center",
            "bottom": 0,
            "precision": 1,
            "text": [most_text, "0"],
            "inRange": {"color": HEAT},
            "textStyle": {"color": QUIET},
            "itemWidth": 12,
            "itemHeight": 120,
        },
        "series": [
            {
                "type": "heatmap",
                "name": name,
                "data": cells,
                "itemStyle": {"borderColor": "#fff", "borderWidth": 2},
                "emphasis": {"itemStyle": {"borderColor": INK}},
            }
        ],
    }


def line_axes(name: str, categories: Categories, up_name: str, **margins: int) -> Options:
    """The options of a chart of lines over categories; `margins` that are not the usual ones."""
    return {
        **_COMMON,
        "grid": {**_GRID, **margins},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {
            "type": "category",
            "data": categories,
            **axis_name_options(name, 30),
            "axisLabel": {"color": QUIET, "hideOverlap": True, "fontSize": 11},
        },
        "yAxis": {
            "type": "value",
            "name": up_name,
            "nameTextStyle": {"color": QUIET, "align": "left"},
            "axisLabel": {"color": QUIET},
            "splitLine": {"lineStyle": {"color": LINE}},
        },
    }


def bar_axes(name: str, categories: Categories, up_name: str, **margins: int) -> Options:
    """The options of a chart of bars over categories."""
    options = line_axes(name, categories, up_name, **margins)
    line = {"axisTick": {"show": False}, "axisLine": {"lineStyle": {"color": LINE}}}
    return {
        **options,
        "tooltip": {**options["tooltip"], "axisPointer": {"type": "shadow"}},
        "xAxis": {**options["xAxis"], **line},
    }


def bars(name: str, values: list[Any], **more: Any) -> Options:
    """A series of bars, with further options."""
    style = {"itemStyle": {"color": BATCH}, "barMaxWidth": 34}
    return {"type": "bar", "name": name, "data": values, **style, **more}


def axis_name_options(name: str, gap: int) -> Options:
    """The options that put an axis's name at the middle of the axis."""
    style = {"color": QUIET}
    return {"name": name, "nameLocation": "middle", "nameGap": gap, "nameTextStyle": style}


def describe_days(days: tuple[Day, ...]) -> str:
    """The bar chart in words, for screen readers."""
    known = [day for day in days if not day.is_missing]
    return f"{len(known)} of {len(days)} days have an answer"
