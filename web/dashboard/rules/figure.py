"""A rule in a store: what it calls for, read with its alerts, and the chart of its number."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, cycle, groupby
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from alerting.alert.ids import WHOLE_STORE
from alerting.evaluate.scope.calendar import WindowSpan
from alerting.health.service import RuleHealthService
from alerting.health.store import StoreHealth
from alerting.queries.alerts import AlertQueryService, ListedAlert, window_start
from alerting.queries.known_rules import RuleRepository
from alerting.rules.rule import Rule, RuleVersion
from alerting.simulate.service import SimulatedPage, SimulationRequest
from alerting.simulate.store import SimulatedStore
from serving.questions.stores import Store
from tally.alerts.message import AlertState
from tally.errors import BadQuery
from tally.time.instants import from_millis, to_millis
from tally.time.windows import WINDOW_MILLIS, TimeRange
from web.dashboard.shared import charts
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.labels import UnitStyle


class RuleFigure(NamedTuple):
    """A rule in one store over some days.

    `simulated`: the result as if the rule had always been in force. `published`: the current states
    of its alerts in these days, including retracted ones.
    """

    span: WindowSpan
    simulated: SimulatedStore
    published: tuple[ListedAlert, ...]


# In place of a figure, where the rule is not evaluated, or is not about the store.
NotJudged = Literal["not judged"]


@dataclass(frozen=True)
class RuleFigureSource:
    """Reads rules with their health, simulations of them, and alerts."""

    repository: RuleRepository
    simulate_page: Callable[[SimulationRequest], Awaitable[SimulatedPage]]
    alert_queries: AlertQueryService
    health_service: RuleHealthService

    async def health(self, rule_id: str, store: Store) -> StoreHealth | None:
        """Whether the rule can be evaluated in the store; None if not in force or not about it.

        Raises UnknownName, ViewsUnreachable.
        """
        page = await self.health_service.read_page(rule_id, [store.store_id], "", 1)
        return page.stores[0] if page.stores else None

    async def rules(self) -> list[RuleVersion]:
        """The newest version of each rule, by id. Raises ViewsUnreachable."""
        versions = (await self.repository.read()).versions
        return [versions[rule_id][-1] for rule_id in sorted(versions)]

    async def load_figure(
        self, rule_id: str, store: Store, period: Period, draft: Rule | None = None
    ) -> RuleFigure | NotJudged:
        """The rule in a store, or the draft in its place. Raises UnknownName, ViewsUnreachable."""
        start, end = period.span(store.clock)
        span = WindowSpan(to_millis(start), to_millis(end))
        # Only one store is simulated, because all stores of a rule would take minutes.
        stores = frozenset([store.store_id])
        request = SimulationRequest(rule_id, span, stores, draft, with_values=True)
        try:
            page = await self.simulate_page(request)
        except BadQuery:
            # A rule of a kind that is not evaluated yet still has its versions shown.
            return "not judged"
        if not page.stores:
            return "not judged"
        days, now = TimeRange(start, end), datetime.now(UTC)
        read = self.alert_queries.read_windows
        published = await read(store.store_id, days, now, days_late=None)
        rule_alerts = [alert for alert in published if alert.rule_id == rule_id]
        rule_alerts.sort(key=lambda alert: (alert.window.start, alert.edge, alert.occurrence))
        return RuleFigure(span, page.stores[0], tuple(rule_alerts))


# By subject, in the order of drawing: a number for each window on the axis, None where is none.
SubjectNumbers = dict[str, Sequence[float | None]]
# Colours by Okabe and Ito, combined with line styles, so that subjects differ without colour too.
_STROKES = (
    (charts.BATCH, "solid"),
    ("#D55E00", "dashed"),
    ("#009E73", "dotted"),
    ("#CC79A7", "solid"),
    ("#56B4E9", "dashed"),
    (charts.INK, "dotted"),
)
# Name, form and colour of the alerts sent, by state; the forms differ without colour too.
_MARKS: dict[AlertState, tuple[str, str, str]] = {
    "confirmed": ("published, confirmed", "diamond", charts.INK),
    "provisional": ("published, provisional", "triangle", charts.SPEED),
    "retracted": ("taken back", "emptyCircle", charts.QUIET),
}
_RAISED_AREA, _RAISED_POINT = "rgba(163,50,42,0.18)", "#a3322a"
_UNKNOWN_AREA = "rgba(154,163,174,0.30)"


def rule_chart(drawn: RuleFigure, style: UnitStyle, zone: ZoneInfo) -> charts.Options:
    """A line chart by the store's clock, with a gap where no complete number is served."""
    # The axis covers the whole span, including windows that have not begun.
    starts = [*drawn.span.windows]
    texts = [f"{from_millis(start).astimezone(zone):%a %-d %b %H:%M}" for start in starts]
    numbers: SubjectNumbers = {}
    for subject, values in drawn.simulated.values.items():
        by_start = dict(values)
        numbers[subject] = [style.axis_value(by_start.get(start)) for start in starts]
    return {
        **charts.line_axes(f"quarter hour ({zone.key})", texts, style.axis, left=30),
        "legend": {"top": 0, "left": 0, "textStyle": charts.SMALL},
        "series": [
            *_lines(drawn, numbers, style),
            *_raise_points(drawn, numbers),
            *_marks(drawn, numbers),
        ],
    }


def describe_rule(drawn: RuleFigure) -> str:
    """The chart in words, for screen readers."""
    simulated = drawn.simulated
    values = chain.from_iterable(simulated.values.values())
    known_windows = {value.window for value in values if value.value is not None}
    raises = [alert for alert in drawn.published if alert.edge == "raise"]
    standing = sum(alert.state != "retracted" for alert in raises)
    count = simulated.articles
    articles = f" of {count:,} articles that were looked at" if count else ""
    return (
        f"{len(simulated.episodes)} episodes by what is served now{articles},"
        f" {standing} raised alerts that were published and stand,"
        f" {len(known_windows)} of {len(drawn.span.windows)} quarter hours with a number"
    )


def _lines(
    drawn: RuleFigure, numbers: SubjectNumbers, style: UnitStyle
) -> Iterator[charts.Options]:
    """One line for each subject; the first line carries the background, which is drawn once."""
    strokes, first = cycle(_STROKES), next(iter(numbers), None)
    for subject, values in numbers.items():
        colour, form = next(strokes)
        yield {
            "type": "line",
            "name": "number" if subject == WHOLE_STORE else subject,
            "step": "start",
            "showSymbol": False,
            "lineStyle": {"color": colour, "width": 1.5, "type": form},
            "itemStyle": {"color": colour},
            "data": [*values],
            **(_background(drawn, numbers, style) if subject == first else {}),
        }


def _background(drawn: RuleFigure, numbers: SubjectNumbers, style: UnitStyle) -> charts.Options:
    """The background of the lines: raised episodes, windows without a number, and thresholds."""
    episodes = drawn.simulated.episodes
    thresholds = {episode.threshold for episode in episodes if episode.threshold is not None}
    return {
        "markArea": {"silent": True, "data": [*_areas(drawn, numbers)]},
        "markLine": {
            "silent": True,
            "symbol": "none",
            "lineStyle": {"color": charts.QUIET, "type": "dashed"},
            "data": [{"yAxis": style.axis_value(threshold)} for threshold in sorted(thresholds)],
        },
    }


def _areas(drawn: RuleFigure, numbers: SubjectNumbers) -> Iterator[list[charts.Options]]:
    """Grey areas where there is no number, and red ones above where the rule is raised."""
    spans = [(first, last, _UNKNOWN_AREA) for first, last in _gaps(numbers)]
    for simulated in drawn.simulated.episodes:
        if simulated.subject in numbers:
            ended = drawn.span.end if simulated.episode.ended is None else simulated.episode.ended
            first = _place(drawn, simulated.episode.start)
            last = _place(drawn, ended - WINDOW_MILLIS)
            spans.append((first, max(first, last), _RAISED_AREA))
    for first, last, colour in spans:
        # The border makes an area of one quarter hour visible, which has no width.
        style = {"color": colour, "borderColor": colour, "borderWidth": 2}
        yield [{"xAxis": first, "itemStyle": style}, {"xAxis": last}]


def _gaps(numbers: SubjectNumbers) -> Iterator[tuple[int, int]]:
    """The first and last place of each stretch in which no line has a number."""
    columns = zip(*numbers.values(), strict=True)
    holes = [all(number is None for number in column) for column in columns]
    for is_hole, run in groupby(range(len(holes)), holes.__getitem__):
        places = [*run]
        if is_hole:
            yield places[0], places[-1]


def _raise_points(drawn: RuleFigure, numbers: SubjectNumbers) -> Iterator[charts.Options]:
    # An area of one quarter hour is easily overlooked.
    points = []
    for simulated in drawn.simulated.episodes:
        if simulated.subject in numbers:
            place = _place(drawn, simulated.episode.raised)
            points.append([place, numbers[simulated.subject][place] or 0])
    if points:
        yield {
            "type": "scatter",
            "name": "it calls for an alert",
            "symbol": "circle",
            "symbolSize": 8,
            "itemStyle": {"color": _RAISED_POINT},
            "data": points,
        }


def _marks(drawn: RuleFigure, numbers: SubjectNumbers) -> Iterator[charts.Options]:
    for state, (name, symbol, colour) in _MARKS.items():
        points = []
        for alert in drawn.published:
            # An article that has no line has no place for a mark.
            if (alert.state, alert.edge) == (state, "raise") and alert.subject in numbers:
                place = _place(drawn, to_millis(window_start(alert)))
                # Silence has no number, so its mark is drawn at 0.
                points.append([place, numbers[alert.subject][place] or 0])
        if points:
            yield {
                "type": "scatter",
                "name": name,
                "symbol": symbol,
                "symbolSize": 11,
                "itemStyle": {"color": colour},
                "data": points,
            }


def _place(drawn: RuleFigure, window: int) -> int:
    """The number of a window on the axis; what lies outside is at its edge."""
    place = (window - drawn.span.start) // WINDOW_MILLIS
    return min(max(place, 0), len(drawn.span.windows) - 1)
