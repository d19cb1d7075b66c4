"""Comparison of the API's answers with the master, by the metric catalogue.

The audit asks for each metric that is a sum of a family's parts, in total and by each of its
dimensions, and for each level at the end of a window: how many persons came and have not left in
the store's day. The catalogue says which metrics are levels, the stores file says when days begin.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ops.audit.master import ValuesByWindow, WindowKey
from ops.audit.oracle import (
    READERS,
    ApiRow,
    ComparedWindows,
    Difference,
    FetchRows,
    QueryParameters,
    Sample,
    compare_row,
    query_parameters,
    random_windows,
)
from ops.audit.served import is_covered
from ops.oracle import WHOLE, Scope
from runtime.registry.stores import StoreEntry
from schemas import loader
from schemas.metric import AdditiveShape, LevelShape
from tally.algebra.merge import Parts
from tally.algebra.parts import Sum
from tally.families.family import CURRENCY, Family
from tally.families.generation import Generation
from tally.time.day_clock import LocalDay, local_day_at
from tally.time.instants import format_utc
from tally.time.windows import WINDOW, window_start, window_starts

# Values of the dimensions of a question, in their order; () is the total.
DimensionValues: TypeAlias = tuple[str | None, ...]
# The API answers for 1971 to 2169 (serving/questions/question.py); the clock of a till may be set
# to another year.
_FIRST_YEAR, _LAST_YEAR = 1972, 2168


@dataclass(frozen=True)
class StoreDayStarts:
    """When stores' days begin, and the stores and UTC days whose records were read."""

    default_zone: str
    entries: Mapping[str, StoreEntry]
    scope: Scope = WHOLE

    def day(self, store_id: str, instant: datetime) -> LocalDay:
        """The local day of the store that contains the instant."""
        entry = self.entries.get(store_id, StoreEntry())
        return local_day_at(instant, entry.clock(self.default_zone))


class WindowFindings(NamedTuple):
    """How many rows were answered about a window, how many levels left out, and the differences."""

    rows: int
    left_out: int
    differences: list[Difference]


@dataclass(frozen=True)
class SumMetric:
    """A metric that is a weighted sum of one family's parts, and the dimensions that it has."""

    id: str
    weights: Mapping[str, int]
    divide_by: int
    by: tuple[str, ...]
    is_money: bool = False

    def value(self, rows: Iterable[Parts]) -> int | float:
        """The metric of these rows together, in its unit."""
        weights = self.weights.items()
        total = sum(weight * row[part] for row in rows for part, weight in weights)
        # Exact up to the one rounding of a float: an error here must not hide one of the API.
        value = Fraction(total, self.divide_by)
        return int(value) if value.denominator == 1 else float(value)

    @property
    def dimension_sets(self) -> Sequence[tuple[str, ...]]:
        """The dimensions of each question: each alone, currency first, all together, then none."""
        names = sorted(self.by, key=lambda name: (name != CURRENCY, name))
        together = [self.by] if len(self.by) > 1 else []
        return [*((name,) for name in names), *together, ()]


@dataclass(frozen=True)
class AuditedFamily:
    """A family with expected parts by window and axes, its generations, and when days begin."""

    family: Family
    values: ValuesByWindow
    claims: Mapping[date, Generation]
    days: StoreDayStarts


@dataclass(frozen=True)
class ApiComparison(ComparedWindows):
    """A comparison of asked windows; `left_out`: levels whose day is not wholly in the scope."""

    rows: int
    differences: list[Difference]
    left_out: int = 0


def sum_metrics(family: Family) -> list[SumMetric]:
    """The metrics of the catalogue that are sums of this family's parts alone, by id."""
    parts = {part.name for part in family.parts if isinstance(part, Sum)}
    sums = (entry for entry in loader.metrics() if isinstance(entry, AdditiveShape))
    found = []
    for entry in sums:
        weights, is_money = entry.value.sum, entry.unit == "minor"
        # The same name may be a part of two families.
        if entry.families == (family.name,) and parts.issuperset(weights):
            found.append(SumMetric(entry.id, weights, entry.value.divide_by, entry.by, is_money))
    return found


def compare_answers(
    ask: FetchRows, families: Sequence[AuditedFamily], sample: Sample, readers: int = READERS
) -> ApiComparison | None:
    """Ask the API for random windows of the families, and compare its answers with the master.

    Half of the windows have records. Each metric is compared in total and by its dimensions, and
    so is the state (complete, final) that the answer claims. Returns None if no family has both
    windows and a metric that is a sum.
    """
    drawn = [*_draw_windows(families, sample)]
    with ThreadPoolExecutor(readers) as pool:
        found = list(pool.map(lambda question: _compare_window(ask, *question), drawn))
    if not found:
        return None
    return ApiComparison(
        windows=len(found),
        equal=sum(not wrong for _, _, wrong in found),
        rows=sum(rows for rows, _, _ in found),
        differences=[difference for _, _, wrong in found for difference in wrong],
        left_out=sum(left_out for _, left_out, _ in found),
    )


def _draw_windows(
    families: Sequence[AuditedFamily], sample: Sample
) -> Iterator[tuple[AuditedFamily, WindowKey]]:
    """The sampled windows, shared among the families: at least one per family with windows."""
    chance = random.Random(sample.seed)  # a sample, not a secret
    candidates = (
        (audited, [key for key in audited.values if _FIRST_YEAR <= key[1].year <= _LAST_YEAR])
        for audited in families
        if sum_metrics(audited.family)
    )
    filled = [(audited, keys) for audited, keys in candidates if keys]
    for place, (audited, keys) in enumerate(filled):
        share = sample.count // len(filled) + (place < sample.count % len(filled))
        # At least one, even if the sample is smaller than the number of families: windows of one
        # family prove nothing about another.
        for key in random_windows(keys, max(1, share), chance):
            yield audited, key


def _compare_window(ask: FetchRows, audited: AuditedFamily, key: WindowKey) -> WindowFindings:
    count, left_out, wrong = compare_levels(ask, audited, key)
    for metric in sum_metrics(audited.family):
        currencies = 1
        for by in metric.dimension_sets:
            # The API refuses to add up several currencies; the question by currency came first.
            if metric.is_money and currencies > 1 and CURRENCY not in by:
                continue
            rows = [*ask(metric.id, query_parameters(key), by)]
            if by == (CURRENCY,):
                currencies = len(rows)
            count += len(rows)
            answered = {tuple(row["by"][name] for name in by): row for row in rows}
            wrong += _sum_differences(audited, key, metric, by, answered)
    return WindowFindings(count, left_out, wrong)


def _sum_differences(
    audited: AuditedFamily,
    key: WindowKey,
    metric: SumMetric,
    by: Sequence[str],
    answered: Mapping[DimensionValues, ApiRow],
) -> Iterator[Difference]:
    (store, start), covered = key, is_covered(audited.claims, key[1])
    expected = _split(audited, key, metric, by)
    for split in (*answered, *(expected.keys() - answered.keys())):
        # The name of the split, such as `revenue currency=USD`.
        named = zip(by, split, strict=True)
        name = " ".join((metric.id, *(f"{axis}={value}" for axis, value in named)))
        should, row = expected.get(split, 0), answered.get(split)
        if row is not None:
            # A window without records may be unknown to the API; is_claim_correct() decides when it
            # must know.
            is_empty = key not in audited.values
            yield from compare_row((store, start, name), should, row, covered, is_empty)
        # A row without records may be absent; the total is always answered.
        elif should or not split:
            yield Difference(store, format_utc(start), name, should, None)


def _split(
    audited: AuditedFamily, key: WindowKey, metric: SumMetric, by: Sequence[str]
) -> dict[DimensionValues, int | float]:
    """The metric's value, in its unit, by split with records; the total is always present."""
    places = [audited.family.axes.index(name) for name in by]
    rows: dict[DimensionValues, list[Parts]] = {} if by else {(): []}
    for axes, parts in audited.values.get(key, {}).items():
        rows.setdefault(tuple(axes[place] for place in places), []).append(parts)
    return {split: metric.value(split_rows) for split, split_rows in rows.items()}


def compare_levels(ask: FetchRows, audited: AuditedFamily, key: WindowKey) -> WindowFindings:
    """Compare the levels at the ends of the window and of its day with the master."""
    (store, start), count, left_out = key, 0, 0
    wrong: list[Difference] = []
    day = audited.days.day(store, start)
    levels = (metric for metric in loader.metrics() if isinstance(metric, LevelShape))
    for metric in levels:
        if audited.family.name not in metric.families:
            continue
        # Each level by its shortest grain.
        is_of_window = "15m" in metric.grains
        parameters = query_parameters(key) if is_of_window else _local_day_question(store, day.day)
        windows = _windows(day.start, start + WINDOW if is_of_window else day.end)
        # Records of days that were not read are in no sum here.
        if not all(audited.days.scope.holds(store, window) for window in windows):
            left_out += 1
            continue
        rows = [*ask(metric.id, parameters, ())]
        count += len(rows)
        wrong += _level_differences(audited, store, metric, windows, rows)
    return WindowFindings(count, left_out, wrong)


def _level_differences(
    audited: AuditedFamily,
    store: str,
    metric: LevelShape,
    windows: Sequence[datetime],
    rows: Sequence[ApiRow],
) -> Iterator[Difference]:
    open_windows = [window for window in windows if not is_covered(audited.claims, window)]
    # A level after a window that neither layer has is unknown, even if later windows are known.
    is_known = all((store, window) in audited.values for window in open_windows)
    should = _running_sum(audited, store, metric, windows) if is_known else None
    where = store, windows[-1], metric.id
    for row in rows:
        # The speed layer may lack a late record, and with it the whole window.
        yield from compare_row(where, should, row, not open_windows, bool(open_windows))
    if not rows:
        yield Difference(store, format_utc(windows[-1]), metric.id, should, None)


def _running_sum(
    audited: AuditedFamily, store: str, metric: LevelShape, windows: Iterable[datetime]
) -> int:
    return sum(
        sign * parts[part]
        for window in windows
        for parts in audited.values.get((store, window), {}).values()
        for part, sign in metric.value.running.items()
    )


def _local_day_question(store: str, day: date) -> QueryParameters:
    following = day + timedelta(days=1)
    span = {"from": day.isoformat(), "to": following.isoformat()}
    return {"store": store, **span, "grain": "1d", "tz": "store"}


def _windows(begin: datetime, end: datetime) -> list[datetime]:
    """The starts of the windows that begin in [begin, end)."""
    first = window_start(begin)
    return window_starts(first if first == begin else first + WINDOW, end)
