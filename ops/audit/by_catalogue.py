"""Comparison of the API's answers with the master, by the metric catalogue.

The audit asks for each metric that is a sum of a family's parts, in total and by each of its
dimensions, and for each level at the end of a window.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from ops.audit.levels import LevelCheck, StoreDayStarts, WindowFindings
from ops.audit.oracle import ComparedWindows, Difference, Sample, is_claim_correct, random_windows
from ops.audit.read.api_answers import READERS, ApiRow, FetchRows, query_parameters
from ops.audit.read.master import WindowKey, WindowValues
from schemas import loader
from schemas.metric import AdditiveShape
from tally.algebra.merge import Parts
from tally.algebra.parts import Sum
from tally.families.family import CURRENCY, Family
from tally.families.generation import Generation

# Values of the dimensions of a question, in their order; () is the total.
DimensionValues: TypeAlias = tuple[str | None, ...]
# The API answers for 1971 to 2169 (serving/questions/question.py); the clock of a till may be set
# to another year.
_FIRST_YEAR, _LAST_YEAR = 1972, 2168


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
        """The dimensions of each question: each alone and all of them together, then none.

        The currency comes first.
        """
        single = sorted((name,) for name in self.by)
        together = [self.by] if len(self.by) > 1 else []
        currency_first = sorted(single, key=lambda by: by != (CURRENCY,))
        return [*currency_first, *together, ()]


@dataclass(frozen=True)
class AuditedFamily:
    """A family with its expected values, its published generations, and when store days begin.

    `values`: parts by axes of each (store, window start in UTC) with records.
    """

    family: Family
    values: Mapping[WindowKey, WindowValues]
    claims: Mapping[date, Generation]
    days: StoreDayStarts


@dataclass(frozen=True)
class ApiComparison(ComparedWindows):
    """The comparison of asked windows, in how many rows, and each row that differs.

    `left_out`: levels that could not be compared, because their day is not wholly in the scope.
    """

    rows: int
    differences: list[Difference]
    left_out: int = 0


def sum_metrics(family: Family) -> list[SumMetric]:
    """The metrics of the catalogue that are sums of this family's parts alone, by id."""
    parts = {part.name for part in family.parts if isinstance(part, Sum)}
    sums = (entry for entry in loader.metrics() if isinstance(entry, AdditiveShape))
    return [
        SumMetric(
            entry.id,
            entry.value.sum,
            entry.value.divide_by,
            entry.by,
            is_money=entry.unit == "minor",
        )
        for entry in sums
        # The same name may be a part of two families.
        if entry.families == (family.name,) and parts.issuperset(entry.value.sum)
    ]


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
    candidates = [
        (audited, _queryable_windows(audited))
        for audited in families
        if sum_metrics(audited.family)
    ]
    filled = [(audited, keys) for audited, keys in candidates if keys]
    for place, (audited, keys) in enumerate(filled):
        share = sample.count // len(filled) + (place < sample.count % len(filled))
        # At least one, even if the sample is smaller than the number of families: windows of one
        # family prove nothing about another.
        for key in random_windows(keys, max(1, share), chance):
            yield audited, key


def _queryable_windows(audited: AuditedFamily) -> list[WindowKey]:
    return [key for key in audited.values if _FIRST_YEAR <= key[1].year <= _LAST_YEAR]


def _compare_window(ask: FetchRows, audited: AuditedFamily, key: WindowKey) -> WindowFindings:
    """Compare all answers about one window; counts the rows, and lists those that differ."""
    levels = LevelCheck(audited.family, audited.values, audited.claims, audited.days)
    count, left_out, wrong = levels.compare(ask, key)
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
            wrong += _differences(audited, key, _SplitMetric(metric, by), answered)
    return WindowFindings(count, left_out, wrong)


@dataclass(frozen=True)
class _SplitMetric:
    """A metric by some dimensions."""

    metric: SumMetric
    by: tuple[str, ...]

    def compute_expected(
        self, family: Family, values: WindowValues
    ) -> dict[DimensionValues, int | float]:
        """The metric's value, in its unit, by split with records; the total is always present."""
        places = [family.axes.index(name) for name in self.by]
        rows: dict[DimensionValues, list[Parts]] = {}
        if not self.by:
            rows[()] = []
        for axes, parts in values.items():
            rows.setdefault(tuple(axes[place] for place in places), []).append(parts)
        return {split: self.metric.value(split_rows) for split, split_rows in rows.items()}

    def name(self, split: DimensionValues) -> str:
        """The name of the split in a difference, such as `revenue currency=USD`."""
        named = zip(self.by, split, strict=True)
        return " ".join((self.metric.id, *(f"{name}={value}" for name, value in named)))


def _differences(
    audited: AuditedFamily,
    key: WindowKey,
    question: _SplitMetric,
    answered: Mapping[DimensionValues, ApiRow],
) -> Iterator[Difference]:
    where = partial(Difference, key[0], query_parameters(key)["from"])
    expected = question.compute_expected(audited.family, audited.values.get(key, {}))
    # A window without records may be unknown to the API; is_claim_correct() decides when it must
    # know.
    is_empty = key not in audited.values
    for split, row in answered.items():
        name = question.name(split)
        should, got = expected.get(split, 0), row["value"]
        is_unknown = got is None and row["source"] == "missing"
        if got != should and not (is_unknown and is_empty):
            yield where(name, should, got)
        # A comparison of values alone would accept an API that calls everything final.
        if not is_claim_correct(row, key[1], audited.claims):
            yield where(f"{name}: {row['source']}, {row['status']}", should, got)
    for split in expected.keys() - answered.keys():
        # A row without records may be absent; the total is always answered.
        if expected[split] or not split:
            yield where(question.name(split), expected[split], None)
