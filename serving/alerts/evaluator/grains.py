"""Totals that rules are judged by: of an hour, of a day of the store, or since it opened.

They are made of the quarter hours: parts are merged and the metric is derived from all of them, so
a share of a day is no mean of shares.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import structs

from serving.alerts.evaluator.calendar import StoreCalendarDays, WindowSpan, opening_window
from serving.alerts.evaluator.facts import (
    WindowCells,
    exact_value,
    has_come,
    meets_minimum,
    value_of,
)
from serving.alerts.evaluator.moment import JudgedCell
from serving.alerts.evaluator.version_metrics import VersionMetrics
from serving.query.catalogue import Metric
from serving.query.cells import joined
from tally.alerts.comparison import ExactValue
from tally.alerts.rule import Rule, RuleGrain
from tally.alerts.verdict import FurtherFacts, WindowFacts
from tally.instants import from_millis

# Quarter hours of the longest hour and of the longest day that clocks make.
_MOST_WINDOWS = {"quarter_hour": 1, "hour": 8, "day": 192, "since_opening": 1}
# Zones times days that are judged.
_MOST_KNOWN = 20_000


class GrainWindow(NamedTuple):
    """A window as a rule of a grain is judged in it; `total`: None where nothing is judged."""

    cells: WindowCells
    facts: WindowFacts
    total: WindowCells | None = None


def grain_spans(grain: RuleGrain, days: StoreCalendarDays, day: WindowSpan) -> list[WindowSpan]:
    """What totals of a local day are of, ascending; `day`: all its windows.

    Hours are those of the clock. One that the day's begin cuts is none.
    """
    match grain:
        case "hour":
            return _hours(days.zone, day)
        case "day":
            return [day]
        case "since_opening":
            opening = opening_window(days, day)
            return [] if opening is None else [WindowSpan(opening, day.end)]
    return [WindowSpan(one, one + day.windows.step) for one in day.windows]


def ending_windows(
    grain: RuleGrain, days: StoreCalendarDays, day: WindowSpan
) -> frozenset[int] | None:
    """Starts of the windows in which an hour or a day ends; None where each window counts."""
    if grain not in ("hour", "day"):
        return None
    return frozenset(one.windows[-1] for one in grain_spans(grain, days, day))


def most_windows(rule: Rule) -> int:
    """In how many windows a run of the rule is over that has begun in one of them."""
    return rule.for_ * _MOST_WINDOWS[rule.grain]


def watched_ends(
    grain: RuleGrain,
    spans: Sequence[WindowSpan],
    watched: Collection[int],
    held: Collection[int],
) -> frozenset[int]:
    """Starts of the windows in which an hour or a day ends that the rule looks at.

    In:  hours or one day; the windows inside of `within`; those that episodes of the rules in
         `unless` contain; starts in milliseconds since 1970 (UTC).
    Out: those of hours that lie inside whole, of a day that has a window inside; none that an
         episode has a part in.
    """
    wanted = any if grain == "day" else all
    return frozenset(
        span.windows[-1]
        for span in spans
        if wanted(one in watched for one in span.windows)
        and not any(one in held for one in span.windows)
    )


def with_totals(
    rule: Rule,
    metrics: VersionMetrics,
    spans: Sequence[WindowSpan],
    read: Sequence[tuple[WindowCells, WindowFacts]],
) -> Iterator[GrainWindow]:
    """The windows of a day that have begun, each with what its grain says in it.

    In:  `spans`: as grain_spans() has them; `read`: each window by itself, in their order.
    Out: facts of the total where one is judged, and exempt ones where none is.
    """
    begins = {one.start: one for one in spans}
    running: _RunningTotal | None = None
    span = WindowSpan(0, 0)
    for cells, facts in read:
        if cells.start in begins:
            running, span = _RunningTotal(rule, metrics), begins[cells.start]
        if running is None or cells.start >= span.end:
            yield GrainWindow(cells, _silent(facts))
            continue
        running.add(cells, facts)
        if rule.grain == "since_opening" or cells.start == span.windows[-1]:
            yield GrainWindow(cells, running.facts(), running.cells)
        else:
            yield GrainWindow(cells, _silent(facts))


class _RunningTotal:
    """A total while windows are added to it."""

    def __init__(self, rule: Rule, metrics: VersionMetrics) -> None:
        self._rule, self._metrics = rule, metrics
        self._each: list[WindowFacts] = []
        self._parts: list[WindowCells] = []
        self._cells: tuple[JudgedCell, ...] = ()
        # Of each metric, whether it lacks a window of which it may still be told.
        self._gaps = [False] * len(metrics.all)

    def add(self, cells: WindowCells, facts: WindowFacts) -> None:
        """The next window."""
        self._each.append(facts)
        self._parts.append(cells)
        pairs = zip(self._gaps, cells.all, strict=True)
        is_covered = facts.phase == "covered"
        self._gaps = [gap or not (is_covered or has_come(one.cell)) for gap, one in pairs]
        if not self._cells:
            self._cells = cells.all
            return
        triples = zip(self._metrics.all, self._cells, cells.all, strict=True)
        self._cells = tuple(_joined(*one) for one in triples)

    @property
    def cells(self) -> WindowCells:
        """The parts of all windows merged."""
        own = 1 + len(self._metrics.minimum)
        metric, *minimum = self._cells[:own]
        further = self._cells[own:]
        return WindowCells(metric, (*minimum,), None, further, tuple(self._parts))

    def facts(self) -> WindowFacts:
        """What is known of the total: with a window that is not known it is not."""
        phases = {one.phase for one in self._each}
        cells, own = self.cells, 1 + len(self._metrics.minimum)
        value = value_of(self._rule, self._metrics.metric, cells.metric.cell)
        last = self._each[-1]
        return structs.replace(
            last,
            phase="open" if "open" in phases else max(phases, key=("covered", "closed").index),
            value=None if self._is_unknown(self._gaps[:own]) else value,
            is_known=all(one.is_known for one in self._each),
            meets_minimum=meets_minimum(self._metrics, cells),
            is_exempt=any(one.is_exempt for one in self._each),
            further=tuple(map(self._further, range(len(cells.further)))),
        )

    def _further(self, place: int) -> FurtherFacts:
        metric, of = self._metrics.further[place], self.cells.further[place]
        gap = self._gaps[1 + len(self._metrics.minimum) + place]
        value = None if self._is_unknown([gap]) else _exact(metric, of)
        return FurtherFacts(value, all(one.further[place].is_known for one in self._each))

    def _is_unknown(self, gaps: Sequence[bool]) -> bool:
        # To a rule that counts silence, what has not come is nothing.
        return self._rule.on_silence == "hold" and any(gaps)


def _joined(metric: Metric, before: JudgedCell, one: JudgedCell) -> JudgedCell:
    return JudgedCell(
        joined(metric.families, [before.cell, one.cell]),
        before.is_complete and one.is_complete,
        before.is_hidden or one.is_hidden,
        one.served,
    )


def _exact(metric: Metric, of: JudgedCell) -> ExactValue | None:
    return exact_value(metric, of.cell) if has_come(of.cell) else None


def _silent(facts: WindowFacts) -> WindowFacts:
    return WindowFacts(phase=facts.phase, value=None, is_exempt=True, further=facts.further)


@lru_cache(maxsize=_MOST_KNOWN)
def _hours(zone: ZoneInfo, day: WindowSpan) -> list[WindowSpan]:
    borders = [one for one in (*day.windows, day.end) if _is_full_hour(one, zone)]
    return [WindowSpan(*pair) for pair in pairwise(borders)]


def _is_full_hour(window: int, zone: ZoneInfo) -> bool:
    shown = from_millis(window).astimezone(zone)
    return shown.minute == 0 and shown.second == 0
