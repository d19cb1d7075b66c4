"""The totals by which rules with a grain are evaluated: per hour, per store day, or since opening.

Totals are made of quarter hours: the parts are merged first and the metric is derived from the
merged parts, so a day's share is not a mean of shares.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import structs

from alerting.episodes.verdict import FurtherFacts, WindowFacts
from alerting.evaluate.snapshot.calendar import StoreCalendarDays, WindowSpan, opening_window
from alerting.evaluate.snapshot.rule_readings import VersionMetrics
from alerting.evaluate.snapshot.window_facts import (
    MetricCell,
    WindowCells,
    cell_value,
    exact_value,
    has_data,
    meets_minimum,
)
from alerting.rules.rule import Rule, RuleGrain
from serving.cells.cells import join_cells
from serving.metrics.catalogue import Metric
from tally.alerts.baseline import ExactValue
from tally.time.instants import from_millis

# Quarter hours of the longest hour and the longest day that clock changes can make.
_MAX_WINDOWS = {"quarter_hour": 1, "hour": 8, "day": 192, "since_opening": 1}
# Cache entries: zones times evaluated days.
_CACHE_SIZE = 20_000


class GrainWindow(NamedTuple):
    """A window as a rule with a grain evaluates it; `total` is None where no total is evaluated."""

    cells: WindowCells
    facts: WindowFacts
    total: WindowCells | None = None


def grain_spans(grain: RuleGrain, days: StoreCalendarDays, day: WindowSpan) -> list[WindowSpan]:
    """The spans of a local day's totals, ascending; `day`: all windows of the day.

    Hours are clock hours. An hour that the start of the day cuts is left out.
    """
    match grain:
        case "hour":
            return _hours(days.zone, day)
        case "day":
            return [day]
        case "since_opening":
            opening = opening_window(days, day)
            return [] if opening is None else [WindowSpan(opening, day.end)]
    return [WindowSpan(window, window + day.windows.step) for window in day.windows]


def ending_windows(
    grain: RuleGrain, days: StoreCalendarDays, day: WindowSpan
) -> frozenset[int] | None:
    """The starts of the windows in which an hour or a day ends; None where each window counts."""
    if grain not in ("hour", "day"):
        return None
    return frozenset(span.windows[-1] for span in grain_spans(grain, days, day))


def max_run_windows(rule: Rule) -> int:
    """The greatest number of windows that a run of the rule may take."""
    return rule.for_ * _MAX_WINDOWS[rule.grain]


def eligible_ends(
    grain: RuleGrain,
    spans: Sequence[WindowSpan],
    watched: Collection[int],
    inhibited: Collection[int],
) -> frozenset[int]:
    """The starts of the windows that end an hour or a day which the rule looks at.

    In:  `spans`: hours, or one day; `watched`: the windows inside `within`; `inhibited`: the
         windows in episodes of the rules in `unless`; starts in milliseconds since 1970 (UTC).
    Out: the ends of hours that lie wholly inside, and of a day with any window inside; spans that
         overlap an episode are left out.
    """
    quantifier = any if grain == "day" else all
    return frozenset(
        span.windows[-1]
        for span in spans
        if quantifier(window in watched for window in span.windows)
        and not any(window in inhibited for window in span.windows)
    )


def with_totals(
    rule: Rule,
    metrics: VersionMetrics,
    spans: Sequence[WindowSpan],
    read: Sequence[tuple[WindowCells, WindowFacts]],
) -> Iterator[GrainWindow]:
    """The windows of a day that have begun, each with the total that is evaluated in it, if any.

    In:  `spans`: as grain_spans() returns them; `read`: each single window, in order of time.
    Out: the facts of the total where one is evaluated, and exempt facts elsewhere.
    """
    begins = {grain_span.start: grain_span for grain_span in spans}
    running: _RunningTotal | None = None
    span = WindowSpan(0, 0)
    for cells, facts in read:
        if cells.start in begins:
            running, span = _RunningTotal(rule, metrics), begins[cells.start]
        if running is None or cells.start >= span.end:
            yield GrainWindow(cells, _exempt_facts(facts))
            continue
        running.add(cells, facts)
        if rule.grain == "since_opening" or cells.start == span.windows[-1]:
            yield GrainWindow(cells, running.facts(), running.cells)
        else:
            yield GrainWindow(cells, _exempt_facts(facts))


class _RunningTotal:
    """A total to which windows are added one by one."""

    def __init__(self, rule: Rule, metrics: VersionMetrics) -> None:
        self._rule, self._metrics = rule, metrics
        self._each: list[WindowFacts] = []
        self._parts: list[WindowCells] = []
        self._cells: tuple[MetricCell, ...] = ()
        # For each metric, whether it lacks a window for which data may still arrive.
        self._gaps = [False] * len(metrics.all)

    def add(self, cells: WindowCells, facts: WindowFacts) -> None:
        """Add the next window."""
        self._each.append(facts)
        self._parts.append(cells)
        pairs = zip(self._gaps, cells.all, strict=True)
        is_covered = facts.phase == "covered"
        self._gaps = [gap or not (is_covered or has_data(cell.cell)) for gap, cell in pairs]
        if not self._cells:
            self._cells = cells.all
            return
        triples = zip(self._metrics.all, self._cells, cells.all, strict=True)
        self._cells = tuple(_merge_cells(*triple) for triple in triples)

    @property
    def cells(self) -> WindowCells:
        """The merged parts of all windows."""
        own_count = 1 + len(self._metrics.minimum)
        metric, *minimum = self._cells[:own_count]
        further = self._cells[own_count:]
        return WindowCells(metric, (*minimum,), None, further, tuple(self._parts))

    def facts(self) -> WindowFacts:
        """The facts of the total; one unknown window makes the total unknown."""
        phases = {window.phase for window in self._each}
        cells, own_count = self.cells, 1 + len(self._metrics.minimum)
        value = cell_value(self._rule, self._metrics.metric, cells.metric.cell)
        last = self._each[-1]
        return structs.replace(
            last,
            phase="open" if "open" in phases else max(phases, key=("covered", "closed").index),
            value=None if self._is_unknown(self._gaps[:own_count]) else value,
            is_known=all(window.is_known for window in self._each),
            meets_minimum=meets_minimum(self._metrics, cells),
            is_exempt=any(window.is_exempt for window in self._each),
            further=tuple(map(self._further, range(len(cells.further)))),
        )

    def _further(self, place: int) -> FurtherFacts:
        metric, cell = self._metrics.further[place], self.cells.further[place]
        gap = self._gaps[1 + len(self._metrics.minimum) + place]
        value = None if self._is_unknown([gap]) else _optional_value(metric, cell)
        return FurtherFacts(value, all(window.further[place].is_known for window in self._each))

    def _is_unknown(self, gaps: Sequence[bool]) -> bool:
        # A rule that raises on silence counts missing data as nothing.
        return self._rule.on_silence == "hold" and any(gaps)


def _merge_cells(metric: Metric, before: MetricCell, added: MetricCell) -> MetricCell:
    return MetricCell(
        join_cells(metric.families, [before.cell, added.cell]),
        before.is_covered and added.is_covered,
        before.is_hidden or added.is_hidden,
        added.generations,
    )


def _optional_value(metric: Metric, metric_cell: MetricCell) -> ExactValue | None:
    return exact_value(metric, metric_cell.cell) if has_data(metric_cell.cell) else None


def _exempt_facts(facts: WindowFacts) -> WindowFacts:
    return WindowFacts(phase=facts.phase, value=None, is_exempt=True, further=facts.further)


@lru_cache(maxsize=_CACHE_SIZE)
def _hours(zone: ZoneInfo, day: WindowSpan) -> list[WindowSpan]:
    borders = [start for start in (*day.windows, day.end) if _is_full_hour(start, zone)]
    return [WindowSpan(*pair) for pair in pairwise(borders)]


def _is_full_hour(window: int, zone: ZoneInfo) -> bool:
    shown = from_millis(window).astimezone(zone)
    return shown.minute == 0 and shown.second == 0
