"""The metric catalogue as formulas over the parts of families."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import cache
from math import sqrt
from typing import Any, ClassVar, TypeVar

from runtime.registry.sources import FAMILIES
from schemas import loader
from schemas import metric as shapes
from schemas.metric import AnyMetric
from tally.algebra.merge import Parts
from tally.algebra.parts import Histogram, Part, Uniques
from tally.errors import BadQuery, UnknownName
from tally.families.family import Family

MetricValue = int | float | None
# The standard error of an estimate, as a share of it (Bar-Yossef et al. 2002).
STANDARD_ERROR = round(1 / sqrt(Uniques.SKETCH_SIZE - 2), 4)
# The share by which a bucket's lower end may be below the numbers in it.
BUCKET_ERROR = 1 / 2 ** (Histogram.STEPS - 1)
# Each number below this has a bucket of its own.
EXACT_SIZES = 2**Histogram.STEPS


@dataclass(frozen=True)
class Formula(ABC):
    """A number computed from the parts of one family's rows."""

    # How far a value may be off, in words; None where it is exact.
    error_description: ClassVar[str | None] = None
    family: Family

    def join_rows(self, rows: Sequence[Parts]) -> Parts:
        """The rows of one stretch, which have different values of the axes, as one row."""
        # Joined across axes and never as over time: no row replaces another.
        return self.family.join_across_axes(rows)

    @abstractmethod
    def total(self, parts: Parts) -> MetricValue:
        """The value of joined parts; None where they hold nothing to compute it from."""

    def error(self, parts: Parts) -> float | None:
        """How far this value may be off, as a share of it; None without a stated error."""
        return None


@dataclass(frozen=True)
class WeightedSum(Formula):
    """A weighted sum of a family's sums and counts, divided at the end: units are thousandths."""

    weights: Mapping[str, int]
    divide_by: int = 1

    def raw_total(self, parts: Parts) -> int:
        """The sum in the unit of the stored parts, before the division."""
        weights = self.weights.items()
        return sum(weight * parts.get(part, 0) for part, weight in weights)

    def total(self, parts: Parts) -> MetricValue:
        """The value of summed parts; an absent part is 0."""
        total = self.raw_total(parts)
        return total if self.divide_by == 1 else _divide(total, self.divide_by)


@dataclass(frozen=True)
class Extreme(Formula):
    """The least or the greatest value of the events, as the part holds it."""

    part: str

    def total(self, parts: Parts) -> MetricValue:
        """The value of the part; None without events, for no number would stand for that."""
        found: MetricValue = parts.get(self.part)
        return found


@dataclass(frozen=True)
class UniquesEstimate(Formula):
    """The number of different subjects, estimated by a sketch."""

    error_description = (
        f"standard error {100 * STANDARD_ERROR:.1f} % of the value;"
        f" exact below {Uniques.SKETCH_SIZE:,}"
    )
    part: Uniques

    def total(self, parts: Parts) -> MetricValue:
        """The estimate as a whole number, for it counts persons or things; 0 without events."""
        return round(self.part.estimate(self._digests(parts)))

    def error(self, parts: Parts) -> float | None:
        """The standard error; 0 where every subject is in the sketch."""
        return STANDARD_ERROR if len(self._digests(parts)) >= Uniques.SKETCH_SIZE else 0

    def _digests(self, parts: Parts) -> list[int]:
        digests: list[int] = parts.get(self.part.name, self.part.zero)
        return digests


@dataclass(frozen=True)
class Percentile(Formula):
    """The size that a given share of the numbers does not exceed, by buckets."""

    error_description = (
        f"the true one is at most {100 * BUCKET_ERROR:.2f} % larger; exact below {EXACT_SIZES}"
    )
    part: Histogram
    share: float

    def total(self, parts: Parts) -> MetricValue:
        """The lower end of the bucket; None without events."""
        buckets = parts.get(self.part.name, self.part.zero)
        return self.part.percentile(buckets, self.share)

    def error(self, parts: Parts) -> float | None:
        """The share by which the true size may be larger; 0 where a number has its own bucket."""
        value = self.total(parts)
        return 0 if value is None or value < EXACT_SIZES else BUCKET_ERROR


@dataclass(frozen=True)
class StockAt(Formula):
    """The stock of articles: that at the end of a stretch, or the lowest within it.

    In place of the level its rows hold the number that serving/stock.py has computed from it, or
    None where it is not known. `sales` is what receipts take from the stock.
    """

    part: str
    sales: WeightedSum
    is_lowest: bool = False
    divide_by: int = 1

    def join_rows(self, rows: Sequence[Parts]) -> Parts:
        """Several articles as one: their sum, or for the lowest that of the one with the least."""
        levels = [row[self.part] for row in rows]
        # Without an article that was never counted the value would silently be too low or too high.
        if not levels or None in levels:
            return {self.part: None}
        return {self.part: min(levels) if self.is_lowest else sum(levels)}

    def total(self, parts: Parts) -> MetricValue:
        """The level in units; None where it is not known."""
        level: int | None = parts[self.part]
        return None if level is None else _divide(level, self.divide_by)

    def exactly(self, level: int) -> Fraction:
        """The level in units, without any rounding."""
        return Fraction(level, self.divide_by)


def _divide(total: int, divisor: int) -> int | float:
    # A total that divides evenly stays an integer, and exact; only others become floats.
    return total // divisor if total % divisor == 0 else total / divisor


@dataclass(frozen=True)
class StockBaseline:
    """The stock of one store: its formula, and since when (UTC) its articles are counted."""

    stock: StockAt
    # The window of the earliest of the articles' last counts before the asked stretches.
    since: datetime
    # Those that the store has documents of.
    articles: frozenset[str]


_Kind = TypeVar("_Kind", bound=Part)


@dataclass(frozen=True)
class Metric:
    """A metric: one formula, or the ratio of two sums when `denominator` is there."""

    entry: shapes.MetricShape
    numerator: Formula
    denominator: Formula | None = None

    @property
    def is_money(self) -> bool:
        """Whether the value is in minor units of a currency."""
        return bool(self.entry.unit == "minor")

    @property
    def is_level(self) -> bool:
        """Whether the value is a level: that at a stretch's end, since the store's day began."""
        return isinstance(self.entry, shapes.LevelShape)

    @property
    def stock(self) -> StockAt | None:
        """The formula of the stock since the last count; None for any other metric."""
        return self.numerator if isinstance(self.numerator, StockAt) else None

    @property
    def families(self) -> tuple[Family, ...]:
        """The families whose windows must be there for the metric to have a value."""
        other = self.denominator if self.stock is None else self.stock.sales
        sides = (self.numerator, other) if other else (self.numerator,)
        return tuple(dict.fromkeys(side.family for side in sides))


def single_family_metrics() -> dict[str, Metric]:
    """Some metric for each family, by family name, that reads the windows of that family alone."""
    single = (found for found in _metrics().values() if len(found.families) == 1)
    # The last one wins; any would do, for their windows are the same.
    return {found.families[0].name: found for found in single if not found.is_level}


def metric(metric_id: str) -> Metric:
    """The metric of an id. Raises UnknownName."""
    if found := _metrics().get(metric_id):
        return found
    # The id comes from the client and goes into the answer, so it is cut.
    named = f"there is no metric {metric_id[:64]!r}"
    raise UnknownName("metric", f"{named}; there are {', '.join(_metrics())} (GET /v1/metrics)")


def check_grain(wanted: Metric, grain: str) -> None:
    """Raise BadQuery for a grain that the metric is not answered for."""
    entry = wanted.entry
    if grain in entry.grains:
        return
    variants = (metric(name).entry for name in entry.variants)
    # A variant may have the grain: the number at a day's end, for example, is another metric.
    fit = [variant for variant in variants if grain in variant.grains]
    others = [f"by {', '.join(variant.grains)} ask {variant.id}" for variant in fit]
    why = ", for it begins again at 0 with each day of the store" if wanted.is_level else ""
    detail = f"grain: {entry.id} is answered by {', '.join(entry.grains)}{why}"
    raise BadQuery("grain", "; ".join((detail, *others)), entry.grains)


def entries() -> list[dict[str, Any]]:
    """The fields that /v1/metrics lists of each metric, by id; only estimates have an `error`."""
    shown = ("id", "name", "unit", "kind", "families", "formula", "variants", "by", "grains")
    return [
        {
            **{name: getattr(listed.entry, name) for name in (*shown, "meaning")},
            **({"error": stated} if (stated := listed.numerator.error_description) else {}),
        }
        for listed in _metrics().values()
    ]


def ratio(numerator: MetricValue, denominator: MetricValue) -> float | None:
    """The ratio with 6 decimals; None when the denominator is 0 or a side is not known."""
    if numerator is None or not denominator:
        return None
    # Rounded once, here: sums are exact until then.
    return round(numerator / denominator, 6)


@cache
def _metrics() -> dict[str, Metric]:
    by_id = {entry.id: entry for entry in loader.metrics()}
    return {metric_id: _metric(entry, by_id) for metric_id, entry in by_id.items()}


def _metric(entry: AnyMetric, by_id: Mapping[str, AnyMetric]) -> Metric:
    if isinstance(entry, shapes.StockShape):
        value, takes = entry.value, _formula(by_id[entry.value.sold])
        # The loader has checked that it is a sum.
        assert isinstance(takes, WeightedSum)
        stock = (FAMILIES[entry.families[0]], value.stock, takes)
        return Metric(entry, StockAt(*stock, value.at == "lowest", value.divide_by))
    if isinstance(entry, shapes.RatioShape):
        sides = (by_id[entry.value.numerator], by_id[entry.value.denominator])
        return Metric(entry, *map(_formula, sides))
    return Metric(entry, _formula(entry))


def _formula(entry: AnyMetric) -> Formula:
    # The loader has checked that parts are of one family, and of a kind that the metric can read.
    family = FAMILIES[entry.families[0]]
    match entry:
        case shapes.AdditiveShape():
            return WeightedSum(family, entry.value.sum, entry.value.divide_by)
        case shapes.LevelShape():
            return WeightedSum(family, entry.value.running)
        case shapes.UniquesShape():
            return UniquesEstimate(family, _part(family, entry.value.uniques, Uniques))
        case shapes.PercentileShape():
            part = _part(family, entry.value.percentile.part, Histogram)
            return Percentile(family, part, entry.value.percentile.share)
    # The remaining shapes name one part, whose value is the metric's.
    (name,) = shapes.part_fields(entry)
    return Extreme(family, name)


def _part(family: Family, name: str, kind: type[_Kind]) -> _Kind:
    (part,) = (declared for declared in family.parts if declared.name == name)
    assert isinstance(part, kind)
    return part
