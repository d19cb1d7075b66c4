"""A report in words and as a chart: ECharts options, one kind for each pivot."""

from math import floor
from zoneinfo import ZoneInfo

from serving.reports.comparison import ComparedValue, ComparisonState, WithheldValue
from serving.reports.report import StoreReport
from serving.reports.series import DayEntry, HourEntry, ItemEntry, StayEntry
from web.dashboard.shared import charts
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.charts import BAR_LEGEND, BATCH, INK, MISSING, QUIET, Options, bars
from web.dashboard.shared.labels import BADGES, NOTHING, UnitStyle, instant_text, percent_text

NumberState = ComparisonState
# For each state: a sign and a word, so that neither depends on colour.
STATES: dict[NumberState, tuple[str, str]] = {
    "complete": BADGES["complete"],
    "provisional": BADGES["provisional"],
    "partial": ("◔", "Partial"),
    "estimated": ("≈", "Estimated"),
    "unknown": ("○", "Nothing known"),
    "withheld": ("⊘", "Withheld"),
}
PIVOTS = {
    "day": "by day",
    "hour_of_week": "by hour of the week",
    "stay_time": "by stay time",
    "item": "by item",
}
# States without a number make a result partial if other numbers are known; then the other states
# from the worst to the best.
_NO_NUMBER: tuple[NumberState, ...] = ("unknown", "withheld")
_WEAKEST: tuple[NumberState, ...] = ("partial", "estimated", "provisional", "complete")


def number_state(found: ComparedValue | WithheldValue) -> NumberState:
    """The state of one number."""
    return "withheld" if isinstance(found, WithheldValue) else found.state


def combine_states(states: list[NumberState]) -> NumberState:
    """The state of several numbers together.

    >>> combine_states(["complete", "unknown"]), combine_states(["complete", "provisional"])
    ('partial', 'provisional')
    """
    if len(set(states)) == 1:
        return states[0]
    # If some numbers are known and one is not, the result is partial, however sure the others are.
    reduced = ["partial" if state in _NO_NUMBER else state for state in states]
    return next(state for state in _WEAKEST if state in reduced)


def comparison_text(found: ComparedValue, period: Period) -> str:
    """The change in words, or why there is none."""
    days = f"the {period.length} days before"
    # Checked before the change, because there is none without a value, even if the days before
    # have one.
    if found.suppressed is not None:
        return f"withheld: {found.suppressed}"
    if found.sensor_coverage.is_withheld:
        return "withheld: sensors were silent"
    if found.value is None:
        return "no value: it would be divided by 0" if found.known else ""
    if found.change_percent is not None:
        return f"{percent_text(found.change_percent)} vs {days}"
    if found.suppressed_before is not None:
        return f"not compared: {days} are withheld, {found.suppressed_before}"
    if found.previous is None:
        return f"no value in {days}"
    return f"0 in {days}" if found.previous == 0 else "not compared: quarter hours are missing"


def completeness_text(found: ComparedValue) -> str:
    """The share of the period's quarter hours that are known, as text."""
    if found.known == 0:
        return "Nothing is known of these days, which is not the same as 0."
    missing = found.windows - found.known
    if not missing:
        return "100 % of the quarter hours known"
    # Rounded down, so that an incomplete share never looks like 100 %.
    share = floor(1000 * found.known / found.windows) / 10
    return f"{share} % of the quarter hours known, {missing:,} missing"


def silent_text(found: ComparedValue) -> str:
    """The five sensors that were absent most, the worst first, and how many more were absent."""
    sensors = [
        f"{name} was there for {floor(100 * share)} % of the open hours"
        for share, name in found.sensor_coverage.silent_sensors()
    ]
    more = len(sensors) - 5
    return ", ".join(sensors[:5]) + (f", and {more} more" if more > 0 else "")


def through_text(found: ComparedValue, zone: ZoneInfo) -> str:
    """The instant by which every arrived record is counted, in the store's zone, as text."""
    if found.through is None:
        return f"{NOTHING} (not each of these days has been rebuilt yet)"
    return f"{instant_text(found.through, zone)} ({zone.key})"


def remainder_text(found: StoreReport, style: UnitStyle) -> str:
    """The part of the value that is on none of the receipts read; empty if there is none."""
    left = found.unexplained
    if left is None or not left.now:
        return ""
    # A negative rest means receipts that the value does not contain, or no longer contains.
    amount = f"{style.text(abs(left.now))} {style.word}"
    if left.now > 0:
        return f"{amount} of the value are on no stored receipt, so in no item."
    return f"The items have {amount} more than the value."


def quality_text(found: ComparedValue) -> str:
    """The meaning of the number's state, in a sentence."""
    if not found.is_explained and found.known == found.windows:
        return "The value has an answer, and the stored receipts do not add up to it."
    match found.state:
        case "unknown":
            return "No quarter hour of these days has an answer yet."
        case "withheld" if found.suppressed is not None:
            return f"The number is withheld: {found.suppressed}."
        case "partial":
            return "Quarter hours without an answer are left out, and are not counted as 0."
        case "estimated":
            return f"Sensors were silent: {silent_text(found)}."
        case "withheld":
            return f"Withheld, because sensors were silent: {silent_text(found)}."
        case "provisional":
            return "Every quarter hour has an answer, and some may still change."
    return "Every quarter hour has its final answer."


def report_chart(report: StoreReport, style: UnitStyle, is_small: bool) -> Options:
    """The chart of a report; a small one has no room for the name of the axis below."""
    # Chosen by the type of the entries instead of the pivot's name: each type has its own chart.
    days = [entry for entry in report.series if isinstance(entry, DayEntry)]
    hours = [entry for entry in report.series if isinstance(entry, HourEntry)]
    stays = [entry for entry in report.series if isinstance(entry, StayEntry)]
    items = [entry for entry in report.series if isinstance(entry, ItemEntry)]
    if items:
        # A panel has room for six bars of articles.
        options = _by_item(items[:6] if is_small else items, style)
    elif hours:
        options = _by_hour_of_week(hours, style)
    elif stays:
        options = _by_stay_time(stays, style)
    else:
        options = _by_day(days, report, style)
    if not is_small:
        return options
    # A colour legend stays, because the darkest colour means nothing without it.
    bottom = 42 if "visualMap" in options else 2
    grid = {**options["grid"], "bottom": bottom}
    return {**options, "grid": grid, "xAxis": {**options["xAxis"], "name": ""}}


def has_chart(report: StoreReport) -> bool:
    """Whether there is anything to draw."""
    return any(entry.value is not None for entry in report.series)


def describe_chart(report: StoreReport) -> str:
    """The chart in words, for screen readers."""
    known = sum(entry.value is not None for entry in report.series)
    word = STATES[report.comparison.state][1].lower()
    chart = f"{report.shape.title}: chart {PIVOTS[report.shape.pivot]}"
    return f"{chart}, {known} of {len(report.series)} values known, {word}"


def stay_text(entry: StayEntry) -> str:
    """A bin of stay times in minutes, as text.

    >>> stay_text(StayEntry(0, 5, 1)), stay_text(StayEntry(240, None, 1))
    ('0–5', '240+')
    """
    end = "+" if entry.to_minutes is None else f"–{entry.to_minutes}"
    return f"{entry.from_minutes}{end}"


def _by_day(entries: list[DayEntry], report: StoreReport, style: UnitStyle) -> Options:
    starts = [entry.day.start.astimezone(report.request.zone) for entry in entries]
    days = [f"{start:%a %-d %b}" for start in starts]
    before = {
        "type": "line",
        "name": f"{len(entries)} days before",
        "data": [style.axis_value(entry.previous) for entry in entries],
        # Dashed and with points, so that it differs from the bars even without colour.
        "lineStyle": {"color": INK, "width": 1.5, "type": "dashed"},
        "itemStyle": {"color": INK},
        "symbolSize": 3,
    }
    now = bars("these days", [style.axis_value(entry.value) for entry in entries])
    return {
        **_axes(f"day ({report.request.tz})", days, style),
        "legend": {**BAR_LEGEND, "right": 0},
        "series": [now, before],
    }


def _by_stay_time(entries: list[StayEntry], style: UnitStyle) -> Options:
    bins = [stay_text(entry) for entry in entries]
    now = bars("these days", [style.axis_value(entry.value) for entry in entries])
    return {**_axes("minutes", bins, style), "series": [now]}


def item_text(entry: ItemEntry) -> str:
    """The label of an entry: an article's or category's name, or how many others are summed up."""
    if entry.others is not None:
        return f"{entry.others:,} others"
    name = entry.item if entry.by == "item" else entry.category
    return name or "(no category)"


def _by_item(entries: list[ItemEntry], style: UnitStyle) -> Options:
    # The bars are horizontal and read from the top, because names are long and numbers short.
    frame = _axes(style.axis, [item_text(entry) for entry in entries], style)
    names = {**frame["xAxis"], "inverse": True, "name": ""}
    names["axisLabel"] = {"color": QUIET, "width": 120, "overflow": "truncate", "interval": 0}
    amounts = {**frame["yAxis"], **charts.axis_name_options(style.axis, 30)}
    values = [
        {
            "value": style.axis_value(entry.value),
            "label": {"formatter": style.text(entry.value)},
            # The sum of the others is grey: it is no article, and may be longer than all of them.
            "itemStyle": {"color": BATCH if entry.others is None else MISSING},
        }
        for entry in entries
    ]
    label = {"show": True, "position": "right", "color": INK, "fontSize": 11}
    now = bars("these days", values, label=label)
    grid = {**frame["grid"], "top": 8, "right": 76}
    return {**frame, "grid": grid, "xAxis": amounts, "yAxis": names, "series": [now]}


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
    return charts.heat_map(
        points,
        f"mean {style.axis} an hour" if style.word else style.axis,
        style.axis_value(most) or 0,
        f"{style.text(most)}{behind}",
    )


def _axes(name: str, categories: list[str], style: UnitStyle) -> Options:
    options = charts.bar_axes(name, categories, style.axis, right=22, top=44)
    labels = {**options["yAxis"]["axisLabel"], "hideOverlap": True}
    return {**options, "yAxis": {**options["yAxis"], "axisLabel": labels}}
