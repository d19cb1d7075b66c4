"""The chart of a rule: the number of each quarter hour, and where it was or would be raised."""

from collections.abc import Iterator, Sequence
from itertools import cycle, groupby
from zoneinfo import ZoneInfo

from serving.alerts.evaluator.judgements import WHOLE_STORE
from serving.dashboard import charts
from serving.dashboard.rule_source import DrawnRule
from serving.dashboard.unit_style import UnitStyle
from tally.alerts.message import AlertState
from tally.alerts.told import ToldAlert
from tally.instants import from_millis
from tally.windows import WINDOW_MILLIS

# By the place of its window on the axis; None where there is none.
PlacedNumbers = Sequence[float | None]
# By subject, in the order of drawing.
SubjectNumbers = dict[str, PlacedNumbers]
# By Okabe and Ito, and each with a line of its own: subjects stay apart in grey as well.
_STROKES = (
    (charts.BATCH, "solid"),
    ("#D55E00", "dashed"),
    ("#009E73", "dotted"),
    ("#CC79A7", "solid"),
    ("#56B4E9", "dashed"),
    (charts.INK, "dotted"),
)
# Form and colour of what was told, so that states stay apart in grey as well.
_MARKS: dict[AlertState, tuple[str, str, str]] = {
    "confirmed": ("told, confirmed", "diamond", charts.INK),
    "provisional": ("told, provisional", "triangle", charts.SPEED),
    "retracted": ("taken back", "emptyCircle", charts.QUIET),
}
_SMALL = {"color": charts.QUIET, "fontSize": 12}
_ROOM = {"left": 30, "right": 12, "top": 60, "bottom": 26, "containLabel": True}
_RAISED, _RAISES = "rgba(163,50,42,0.18)", "#a3322a"
_UNKNOWN = "rgba(154,163,174,0.30)"


def rule_chart(drawn: DrawnRule, style: UnitStyle, zone: ZoneInfo) -> charts.Options:
    """A line by the store's clock with a hole where nothing is served complete."""
    assert drawn.simulated is not None
    # All of the span, also those that have not begun: an axis does not end with today.
    starts = [*drawn.span.windows]
    texts = [f"{from_millis(one).astimezone(zone):%a %-d %b %H:%M}" for one in starts]
    numbers: SubjectNumbers = {}
    for subject, values in drawn.simulated.values.items():
        by_start = dict(values)
        numbers[subject] = [style.drawn(by_start.get(one)) for one in starts]
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
        "series": [
            *_lines(drawn, numbers, style),
            *_raised(drawn, numbers),
            *_marks(drawn, numbers),
        ],
    }


def describe_rule(drawn: DrawnRule) -> str:
    """The chart in words, for those who do not see it."""
    simulated = drawn.simulated
    assert simulated is not None
    every = (one for some in simulated.values.values() for one in some)
    known = {one.window for one in every if one.value is not None}
    standing = sum(one.is_standing for one in drawn.told if one.edge == "raise")
    looked_at = simulated.articles
    of = f" of {looked_at:,} articles that were looked at" if looked_at else ""
    return (
        f"{len(simulated.episodes)} episodes by what is served now{of},"
        f" {standing} begins of alerts that were told and stand,"
        f" {len(known)} of {len(drawn.span.windows)} quarter hours with a number"
    )


def _lines(drawn: DrawnRule, numbers: SubjectNumbers, style: UnitStyle) -> Iterator[charts.Options]:
    """One a subject; the first has all that is drawn once."""
    strokes, first = cycle(_STROKES), next(iter(numbers), None)
    for subject, some in numbers.items():
        colour, form = next(strokes)
        yield {
            "type": "line",
            "name": "number" if subject == WHOLE_STORE else subject,
            "step": "start",
            "showSymbol": False,
            "lineStyle": {"color": colour, "width": 1.5, "type": form},
            "itemStyle": {"color": colour},
            "data": [*some],
            **(_ground(drawn, numbers, style) if subject == first else {}),
        }


def _ground(drawn: DrawnRule, numbers: SubjectNumbers, style: UnitStyle) -> charts.Options:
    """What lies behind the lines: where the rule is raised, where nothing is known, thresholds."""
    assert drawn.simulated is not None
    episodes = drawn.simulated.episodes
    told = {one.threshold for one in episodes if one.threshold is not None}
    return {
        "markArea": {"silent": True, "data": [*_areas(drawn, numbers)]},
        "markLine": {
            "silent": True,
            "symbol": "none",
            "lineStyle": {"color": charts.QUIET, "type": "dashed"},
            "data": [{"yAxis": style.drawn(one)} for one in sorted(told)],
        },
    }


def _areas(drawn: DrawnRule, numbers: SubjectNumbers) -> Iterator[list[charts.Options]]:
    """Grey where there is no number, and above it red where the rule is raised."""
    assert drawn.simulated is not None
    spans = [(first, last, _UNKNOWN) for first, last in _holes(numbers)]
    for one in drawn.simulated.episodes:
        if one.subject in numbers:
            ended = drawn.span.end if one.episode.ended is None else one.episode.ended
            first, last = _place(drawn, one.episode.start), _place(drawn, ended - WINDOW_MILLIS)
            spans.append((first, max(first, last), _RAISED))
    for first, last, colour in spans:
        # With a border: of one quarter hour the area has no width.
        style = {"color": colour, "borderColor": colour, "borderWidth": 2}
        yield [{"xAxis": first, "itemStyle": style}, {"xAxis": last}]


def _holes(numbers: SubjectNumbers) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch in which no line has a number."""
    columns = zip(*numbers.values(), strict=True)
    holes = [all(number is None for number in column) for column in columns]
    for is_hole, run in groupby(range(len(holes)), holes.__getitem__):
        found = [*run]
        if is_hole:
            yield found[0], found[-1]


def _raised(drawn: DrawnRule, numbers: SubjectNumbers) -> Iterator[charts.Options]:
    """Where each episode is raised: an area of one quarter hour among hundreds is easily missed."""
    assert drawn.simulated is not None
    points = []
    for one in drawn.simulated.episodes:
        if one.subject in numbers:
            place = _place(drawn, one.episode.raised)
            points.append([place, numbers[one.subject][place] or 0])
    if points:
        yield {
            "type": "scatter",
            "name": "it calls for an alert",
            "symbol": "circle",
            "symbolSize": 8,
            "itemStyle": {"color": _RAISES},
            "data": points,
        }


def _marks(drawn: DrawnRule, numbers: SubjectNumbers) -> Iterator[charts.Options]:
    for state, (name, symbol, colour) in _MARKS.items():
        # Of an article that has no line there is nothing to mark.
        found = [
            one
            for one in drawn.told
            if one.state == state and one.edge == "raise" and one.chain.subject in numbers
        ]
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


def _height(drawn: DrawnRule, one: ToldAlert, numbers: SubjectNumbers) -> float:
    return numbers[one.chain.subject][_place(drawn, one.window)] or 0


def _place(drawn: DrawnRule, window: int) -> int:
    """The number of a window on the axis; what lies outside is at its edge."""
    place = (window - drawn.span.start) // WINDOW_MILLIS
    return min(max(place, 0), len(drawn.span.windows) - 1)
