"""The chart of a rule: the number of each quarter hour, and where it was or would be raised."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from zoneinfo import ZoneInfo

from serving.dashboard import charts
from serving.dashboard.rule_source import DrawnRule
from serving.dashboard.unit_style import UnitStyle
from tally.alerts.message import AlertState
from tally.alerts.told import ToldAlert
from tally.instants import from_millis
from tally.windows import WINDOW_MILLIS

# By the place of its window on the axis; None where there is none.
PlacedNumbers = Sequence[float | None]
# Form and colour of what was told, so that states stay apart in grey as well.
_MARKS: dict[AlertState, tuple[str, str, str]] = {
    "confirmed": ("told, confirmed", "diamond", charts.INK),
    "provisional": ("told, provisional", "triangle", charts.SPEED),
    "retracted": ("taken back", "emptyCircle", charts.QUIET),
}
_SMALL = {"color": charts.QUIET, "fontSize": 12}
_ROOM = {"left": 30, "right": 12, "top": 60, "bottom": 26, "containLabel": True}
_RAISED = "rgba(163,50,42,0.18)"
_UNKNOWN = "rgba(154,163,174,0.30)"


def rule_chart(drawn: DrawnRule, style: UnitStyle, zone: ZoneInfo) -> charts.Options:
    """A line by the store's clock with a hole where nothing is served complete."""
    assert drawn.simulated is not None
    # All of the span, also those that have not begun: an axis does not end with today.
    starts = [*drawn.span.windows]
    values = dict(drawn.simulated.values)
    texts = [f"{from_millis(one).astimezone(zone):%a %-d %b %H:%M}" for one in starts]
    numbers = [style.drawn(values.get(one)) for one in starts]
    return {
        **charts.common(),
        "legend": {"top": 0, "left": 0, "textStyle": _SMALL},
        "grid": _ROOM,
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {
            "type": "category",
            "data": texts,
            **charts.named(f"quarter hour ({zone.key})", 30),
            "axisLabel": {"color": charts.QUIET, "hideOverlap": True, "fontSize": 11},
        },
        "yAxis": {
            "type": "value",
            "name": style.axis,
            "nameTextStyle": {"color": charts.QUIET, "align": "left"},
            "axisLabel": {"color": charts.QUIET},
            "splitLine": {"lineStyle": {"color": charts.LINE}},
        },
        "series": [_line(drawn, numbers, style), *_marks(drawn, numbers)],
    }


def describe_rule(drawn: DrawnRule) -> str:
    """The chart in words, for those who do not see it."""
    assert drawn.simulated is not None
    known = sum(one.value is not None for one in drawn.simulated.values)
    standing = sum(one.is_standing for one in drawn.told if one.edge == "raise")
    return (
        f"{len(drawn.simulated.episodes)} episodes by what is served now,"
        f" {standing} begins of alerts that were told and stand,"
        f" {known} of {len(drawn.span.windows)} quarter hours with a number"
    )


def _line(drawn: DrawnRule, numbers: PlacedNumbers, style: UnitStyle) -> charts.Options:
    assert drawn.simulated is not None
    episodes = drawn.simulated.episodes
    told = {one.threshold for one in episodes if one.threshold is not None}
    levels = [{"yAxis": style.drawn(one)} for one in sorted(told)]
    return {
        "type": "line",
        "name": "number",
        "step": "start",
        "showSymbol": False,
        "lineStyle": {"color": charts.BATCH, "width": 1.5},
        "itemStyle": {"color": charts.BATCH},
        "data": [*numbers],
        "markArea": {"silent": True, "data": [*_areas(drawn, numbers)]},
        "markLine": {
            "silent": True,
            "symbol": "none",
            "lineStyle": {"color": charts.QUIET, "type": "dashed"},
            "data": levels,
        },
    }


def _areas(drawn: DrawnRule, numbers: PlacedNumbers) -> Iterator[list[charts.Options]]:
    """Grey where there is no number, and above it red where the rule is raised."""
    assert drawn.simulated is not None
    spans = [(first, last, _UNKNOWN) for first, last in _holes(numbers)]
    for one in drawn.simulated.episodes:
        ended = drawn.span.end if one.episode.ended is None else one.episode.ended
        first, last = _place(drawn, one.episode.start), _place(drawn, ended - WINDOW_MILLIS)
        spans.append((first, max(first, last), _RAISED))
    for first, last, colour in spans:
        yield [{"xAxis": first, "itemStyle": {"color": colour}}, {"xAxis": last}]


def _holes(numbers: PlacedNumbers) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch without a number."""
    places = range(len(numbers))
    for is_hole, run in groupby(places, lambda place: numbers[place] is None):
        found = [*run]
        if is_hole:
            yield found[0], found[-1]


def _marks(drawn: DrawnRule, numbers: PlacedNumbers) -> Iterator[charts.Options]:
    for state, (name, symbol, colour) in _MARKS.items():
        found = [one for one in drawn.told if one.state == state and one.edge == "raise"]
        if found:
            yield {
                "type": "scatter",
                "name": name,
                "symbol": symbol,
                "symbolSize": 11,
                "itemStyle": {"color": colour},
                # Of silence there is no number: its mark stands on the ground.
                "data": [
                    [_place(drawn, one.window), _height(drawn, one, numbers)] for one in found
                ],
            }


def _height(drawn: DrawnRule, one: ToldAlert, numbers: PlacedNumbers) -> float:
    return numbers[_place(drawn, one.window)] or 0


def _place(drawn: DrawnRule, window: int) -> int:
    """The number of a window on the axis; what lies outside is at its edge."""
    place = (window - drawn.span.start) // WINDOW_MILLIS
    return min(max(place, 0), len(drawn.span.windows) - 1)
