"""The series of a report: its metric by day, by hour of the week, or by the length of visits.

Sales by article are in serving/reports/items.py, for no view holds them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from zoneinfo import ZoneInfo

from schemas.report import Pivot
from serving.cells import cells
from serving.disclosure import bins_suppression_reason
from serving.engine.answer import StoreAnswer
from serving.metrics.catalogue import Metric
from serving.metrics.formulas import MetricValue
from serving.reports.comparison import Answers, value_or_reason
from serving.reports.items import ItemEntry
from tally.algebra.parts import Histogram
from tally.time.windows import TimeRange

GRAINS: dict[Pivot, str] = {
    "day": "1d",
    "hour_of_week": "1h",
    "stay_time": "1d",
    "item": "1d",
}
# Upper ends of the bins of stay times in minutes, exclusive; the last bin has none. Each is the
# lower end of a bucket of the histogram, or visits of one bucket would lie in two bins.
STAY_BINS = (5, 10, 15, 20, 30, 40, 60, 80, 120, 240)
assert all(Histogram.bucket(end) == end for end in STAY_BINS)


@dataclass(frozen=True)
class DayEntry:
    """A local day beside the corresponding one before; a value of None is not known.

    `complete` is true if each quarter hour of the day is known; else the value is that of the known
    ones. `suppressed` is why the value is withheld, `previous_suppressed` why the earlier one is.
    """

    day: TimeRange
    value: MetricValue
    previous: MetricValue
    complete: bool = True
    suppressed: str | None = None
    previous_suppressed: str | None = None


@dataclass(frozen=True)
class HourEntry:
    """An hour of the week, Monday is 1; it is `complete` if each such hour of the days is known."""

    weekday: int
    hour: int
    value: MetricValue
    complete: bool
    suppressed: str | None = None


@dataclass(frozen=True)
class StayEntry:
    """The number of visits that lasted [from_minutes, to_minutes); None means no upper end."""

    from_minutes: int
    to_minutes: int | None
    value: MetricValue
    suppressed: str | None = None


PivotEntry = DayEntry | HourEntry | StayEntry | ItemEntry


def build_series(
    pivot: Pivot, metric: Metric, answers: Answers, zone: ZoneInfo
) -> tuple[PivotEntry, ...]:
    """The entries by time, or by length, ascending."""
    if pivot == "hour_of_week":
        return _by_hour_of_week(metric, answers[0], zone)
    if pivot == "stay_time":
        return _by_stay_time(metric, answers[0])
    return _by_day(metric, answers)


def _by_day(metric: Metric, answers: Answers) -> tuple[PivotEntry, ...]:
    now, before = (answer.result_cells for answer in answers)
    # Both spans have as many local days, except that a zone may have skipped a day in one of them.
    pairs = zip_longest(now, before[: len(now)])
    return tuple(_day(metric, answers, cell, earlier) for cell, earlier in pairs)


def _day(
    metric: Metric, answers: Answers, cell: cells.Cell, earlier: cells.Cell | None
) -> DayEntry:
    now, before = answers
    value, suppressed = value_or_reason(metric, now, cell)
    previous, previous_suppressed = (
        value_or_reason(metric, before, earlier) if earlier else (None, None)
    )
    complete = cell.has_all_windows and cell.sensor_coverage.is_enough
    return DayEntry(cell.slot, value, previous, complete, suppressed, previous_suppressed)


def _by_hour_of_week(metric: Metric, answer: StoreAnswer, zone: ZoneInfo) -> tuple[PivotEntry, ...]:
    """A value for each hour of the week, Monday's midnight first.

    A metric that adds up has the mean of the hours that are known whole, for a month has some
    weekdays more often than others; a ratio has that of their sums.
    """
    hours: dict[tuple[int, int], list[cells.Cell]] = defaultdict(list)
    for cell in answer.result_cells:
        local = cell.slot.start.astimezone(zone)
        hours[local.weekday(), local.hour].append(cell)
    found = sorted(hours.items())
    return tuple(_hour(metric, answer, place, same_hours) for place, same_hours in found)


def _hour(
    metric: Metric, answer: StoreAnswer, place: tuple[int, int], same_hours: list[cells.Cell]
) -> HourEntry:
    whole = [cell for cell in same_hours if cell.has_all_windows]
    # Any withheld hour withholds the value: a mean of the others would be that of the busy ones.
    reasons = (value_or_reason(metric, answer, cell)[1] for cell in whole)
    suppressed = next((why for why in reasons if why is not None), None)
    value = None if suppressed else _mean(metric, whole)
    weekday, hour = place
    complete = len(whole) == len(same_hours) and all(
        cell.sensor_coverage.is_enough for cell in whole
    )
    return HourEntry(weekday + 1, hour, value, complete, suppressed)


def _mean(metric: Metric, whole: list[cells.Cell]) -> MetricValue:
    if not whole:
        return None
    value = cells.cell_values(metric, cells.join_cells(metric.families, whole))["value"]
    # A ratio of sums is a mean already.
    if value is None or metric.denominator is not None:
        return value
    return round(value / len(whole), 6)


def _by_stay_time(metric: Metric, answer: StoreAnswer) -> tuple[PivotEntry, ...]:
    """The number of visits by their length in minutes, by STAY_BINS."""
    whole = cells.join_cells(metric.families, answer.result_cells)
    # Checked day by day: the bins of seven days less those of six would reveal those of one day.
    each = ((cell.slot, _count_by_bin(metric, cell)) for cell in answer.result_cells)
    suppressed = (
        None if whole.is_missing else bins_suppression_reason(answer.disclosure, metric, each)
    )
    is_told = not (whole.is_missing or suppressed or whole.sensor_coverage.is_withheld)
    counts = _count_by_bin(metric, whole) if is_told else None
    ends = (*STAY_BINS, None)
    values: Sequence[int | None] = counts or [None] * len(ends)
    return tuple(
        StayEntry(start, end, value, suppressed)
        for start, end, value in zip((0, *STAY_BINS), ends, values, strict=True)
    )


def _count_by_bin(metric: Metric, cell: cells.Cell) -> list[int]:
    (family,) = metric.families
    by_axes = cell.parts.get(family.name, {})
    joined = family.join_across_axes([*by_axes.values()])
    counts = [0] * (len(STAY_BINS) + 1)
    for minutes, count in joined.get("stay_minutes", ()):
        counts[sum(minutes >= end for end in STAY_BINS)] += count
    return counts
