"""The series of a report: its metric by day, by hour of the week, or by how long visits lasted.

What was sold by article is in serving/reports/items.py: no view holds it.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from zoneinfo import ZoneInfo

from schemas.report import Pivot
from serving.query import cells
from serving.query.answer import StoreAnswer
from serving.query.catalogue import Metric
from serving.query.formulas import MetricValue
from serving.query.grains import Slot
from serving.reports.comparison import Answers
from serving.reports.items import ItemEntry
from tally.algebra.parts import Histogram

GRAINS: dict[Pivot, str] = {
    "day": "1d",
    "hour_of_week": "1h",
    "stay_time": "1d",
    "item": "1d",
}
# Upper ends of the bins of stay times in minutes, exclusive; the last has none. Each is the lower
# end of a bucket of the histogram, or visits of one bucket would lie in two bins.
STAY_BINS = (5, 10, 15, 20, 30, 40, 60, 80, 120, 240)
assert all(Histogram.bucket(end) == end for end in STAY_BINS)


@dataclass(frozen=True)
class DayEntry:
    """A local day beside the one as many days before; None: not known.

    `complete`: each quarter hour of the day is known; else the value is that of those which are.
    """

    day: Slot
    value: MetricValue
    previous: MetricValue
    complete: bool = True


@dataclass(frozen=True)
class HourEntry:
    """An hour of the week, Monday is 1; `complete`: each such hour of the days is known."""

    weekday: int
    hour: int
    value: MetricValue
    complete: bool


@dataclass(frozen=True)
class StayEntry:
    """How many visits lasted from so many minutes to less than so many; None: no upper end."""

    from_minutes: int
    to_minutes: int | None
    value: MetricValue


PivotEntry = DayEntry | HourEntry | StayEntry | ItemEntry


def series_of(
    pivot: Pivot, metric: Metric, answers: Answers, zone: ZoneInfo
) -> tuple[PivotEntry, ...]:
    """The entries by time, or by length, ascending."""
    if pivot == "hour_of_week":
        return _by_hour_of_week(metric, answers[0], zone)
    if pivot == "stay_time":
        return _by_stay_time(metric, answers[0])
    return _by_day(metric, answers)


def _by_day(metric: Metric, answers: Answers) -> tuple[PivotEntry, ...]:
    now, before = (one.found for one in answers)
    # Of two spans of as many local days; a zone that has left out a day has one less.
    pairs = zip_longest(now, before[: len(now)])
    return tuple(
        DayEntry(
            cell.slot,
            cells.values_of(metric, cell)["value"],
            cells.values_of(metric, earlier)["value"] if earlier else None,
            cell.is_whole,
        )
        for cell, earlier in pairs
    )


def _by_hour_of_week(metric: Metric, answer: StoreAnswer, zone: ZoneInfo) -> tuple[PivotEntry, ...]:
    """A value for each hour of the week, Monday's midnight first: of what adds up the mean of the
    hours that are known whole, for a month has some weekdays more often; of a ratio that of their
    sums."""
    hours: dict[tuple[int, int], list[cells.Cell]] = defaultdict(list)
    for cell in answer.found:
        local = cell.slot.start.astimezone(zone)
        hours[local.weekday(), local.hour].append(cell)
    return tuple(
        HourEntry(
            weekday + 1,
            hour,
            _mean(metric, [cell for cell in some if cell.is_whole]),
            all(cell.is_whole for cell in some),
        )
        for (weekday, hour), some in sorted(hours.items())
    )


def _mean(metric: Metric, whole: list[cells.Cell]) -> MetricValue:
    if not whole:
        return None
    value = cells.values_of(metric, cells.joined(metric.families, whole))["value"]
    # Sums over sums are a mean already.
    if value is None or metric.denominator is not None:
        return value
    return round(value / len(whole), 6)


def _by_stay_time(metric: Metric, answer: StoreAnswer) -> tuple[PivotEntry, ...]:
    """How many visits lasted how many minutes, by STAY_BINS."""
    whole = cells.joined(metric.families, answer.found)
    (family,) = metric.families
    by_axes = whole.parts.get(family.name, {})
    joined = family.across([*by_axes.values()])
    ends = (*STAY_BINS, None)
    counts = [0] * len(ends)
    for minutes, count in joined.get("stay_minutes", ()):
        counts[sum(minutes >= end for end in STAY_BINS)] += count
    known = not whole.is_missing
    return tuple(
        StayEntry(start, end, count if known else None)
        for start, end, count in zip((0, *STAY_BINS), ends, counts, strict=True)
    )
