"""The series of a report: its metric by day, hour of the week, length of visits, or article."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from zoneinfo import ZoneInfo

from schemas.metric import Pivot
from serving.answer import StoreAnswer
from serving.cells import cells
from serving.disclosure import bins_suppression_reason
from serving.items import RECEIPTS, UNITS, ItemAxis, ItemKey, ItemSums
from serving.questions.catalogue import Metric, MetricValue
from serving.reports.comparison import (
    Answers,
    ComparedValue,
    refuse_mixed_currencies,
    value_or_reason,
)
from tally.algebra.parts import Histogram
from tally.time.windows import TimeRange

# The sums of the days, and of the days before.
Sums = tuple[ItemSums, ItemSums]


@dataclass(frozen=True)
class ItemQuestion:
    """The axis of the series, and the number of entries before the rest is joined into one."""

    by: ItemAxis = "item"
    top: int = 20


@dataclass(frozen=True)
class ItemEntry:
    """An article, or a category: only articles have `item_id` and `item`.

    `others` is the number of articles or categories that the entry sums up, None for a single one.
    Their `receipts` are None, for one receipt may have several of them. `share` is that of the
    value; None where the value is not above 0.
    """

    by: ItemAxis
    item_id: str | None
    item: str | None
    category: str | None
    value: int
    units: MetricValue
    receipts: MetricValue
    share: float | None
    previous: int
    others: int | None = None


@dataclass(frozen=True)
class UnexplainedAmounts:
    """Minor units of the value, and of the one before, that no article has; None: not known."""

    now: int | None
    before: int | None


def build_entries(
    asked: ItemQuestion, sums: Sums, found: ComparedValue
) -> tuple[tuple[ItemEntry, ...], UnexplainedAmounts]:
    """The entries by value descending, then by id, and what they leave unexplained.

    The entries add up to the value less `now`. Raises BadQuery for money of several currencies.
    """
    now, before = sums
    of_value = set() if found.currency is None else {found.currency}
    refuse_mixed_currencies(of_value | now.currencies | before.currencies, found.metric)
    # Includes keys that were sold only on the days before: else those days would not add up.
    everything = now.parts.keys() | before.parts.keys()

    def place(key: ItemKey) -> tuple[int, str]:
        return -now.revenue([key]), key or ""

    keys = sorted(everything, key=place)
    top, rest = keys[: asked.top], keys[asked.top :]
    entries = [_entry(asked.by, key, sums, found) for key in top]
    if rest:
        entries.append(_others(asked.by, rest, sums, found))
    return tuple(entries), UnexplainedAmounts(
        _remainder(found.value, now.revenue(now.parts)),
        _remainder(found.previous, before.revenue(before.parts)),
    )


def _entry(by: ItemAxis, key: ItemKey, sums: Sums, found: ComparedValue) -> ItemEntry:
    now, before = sums
    named = now.names.get(key) or before.names[key]
    entry = replace(
        _others(by, [key], sums, found),
        category=named.category,
        receipts=now.total(RECEIPTS, [key]),
        others=None,
    )
    return replace(entry, item_id=key, item=named.item) if by == "item" else entry


def _others(by: ItemAxis, keys: Sequence[ItemKey], sums: Sums, found: ComparedValue) -> ItemEntry:
    now, before = sums
    value, whole = now.revenue(keys), found.value
    # A share of a value that returns brought to 0 or below says nothing.
    share = round(value / whole, 6) if whole is not None and whole > 0 else None
    sold = (value, now.total(UNITS, keys), None, share, before.revenue(keys))
    return ItemEntry(by, None, None, None, *sold, len(keys))


def _remainder(value: MetricValue, explained: int) -> int | None:
    return None if value is None else int(value) - explained


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
    now, before = answers
    found, days = [], now.result_cells
    # Both spans have as many local days, except that a zone may have skipped a day in one of them.
    for cell, earlier in zip_longest(days, before.result_cells[: len(days)]):
        value, why = value_or_reason(metric, now, cell)
        previous, why_before = value_or_reason(metric, before, earlier) if earlier else (None, None)
        complete = cell.has_all_windows and cell.sensor_coverage.is_enough
        found.append(DayEntry(cell.slot, value, previous, complete, why, why_before))
    return tuple(found)


def _by_hour_of_week(metric: Metric, answer: StoreAnswer, zone: ZoneInfo) -> tuple[PivotEntry, ...]:
    # From Monday's midnight on. A metric that adds up has the mean of the hours known whole, for a
    # month has some weekdays more often than others; a ratio has that of their sums.
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
    is_seen = all(cell.sensor_coverage.is_enough for cell in whole)
    complete = len(whole) == len(same_hours) and is_seen
    return HourEntry(place[0] + 1, place[1], value, complete, suppressed)


def _mean(metric: Metric, whole: list[cells.Cell]) -> MetricValue:
    if not whole:
        return None
    value = cells.cell_values(metric, cells.join_cells(metric.families, whole))["value"]
    # A ratio of sums is a mean already.
    if value is None or metric.denominator is not None:
        return value
    return round(value / len(whole), 6)


def _by_stay_time(metric: Metric, answer: StoreAnswer) -> tuple[PivotEntry, ...]:
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
