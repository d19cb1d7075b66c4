"""The metric catalogue as formulas over the parts of families."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from runtime.registry.sources import FAMILIES
from schemas import loader
from schemas.metric import (
    AdditiveShape,
    AnyMetric,
    LevelShape,
    MetricShape,
    PercentileShape,
    RatioShape,
    StockShape,
    UniquesShape,
    part_fields,
)
from serving.metrics.formulas import (
    Extreme,
    Formula,
    MetricValue,
    Percentile,
    StockAt,
    UniquesEstimate,
    WeightedSum,
)
from tally.algebra.parts import Histogram, Part, Uniques
from tally.errors import BadQuery, UnknownName
from tally.families.family import Family

_Kind = TypeVar("_Kind", bound=Part)


@dataclass(frozen=True)
class Metric:
    """A metric: one formula, or the ratio of two sums when `denominator` is there."""

    entry: MetricShape
    numerator: Formula
    denominator: Formula | None = None

    @property
    def is_money(self) -> bool:
        """Whether the value is in minor units of a currency."""
        return bool(self.entry.unit == "minor")

    @property
    def is_level(self) -> bool:
        """Whether the value is a level: that at a stretch's end, since the store's day began."""
        return isinstance(self.entry, LevelShape)

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
    found: dict[str, Metric] = {}
    for candidate in _metrics().values():
        # The last one wins; any would do, for their windows are the same.
        if len(candidate.families) == 1 and not candidate.is_level:
            found[candidate.families[0].name] = candidate
    return found


def metric(metric_id: str) -> Metric:
    """The metric of an id. Raises UnknownName."""
    found = _metrics().get(metric_id)
    if found is None:
        raise UnknownName(
            "metric",
            # The id comes from the client and goes into the answer, so it is cut.
            f"there is no metric {metric_id[:64]!r};"
            f" there are {', '.join(_metrics())} (GET /v1/metrics)",
        )
    return found


def check_grain(wanted: Metric, grain: str) -> None:
    """Raise BadQuery for a grain that the metric is not answered for."""
    entry = wanted.entry
    if grain in entry.grains:
        return
    variants = (metric(name).entry for name in entry.variants)
    # A variant may have the grain: the number at a day's end, for example, is another metric.
    others = [
        f"by {', '.join(variant.grains)} ask {variant.id}"
        for variant in variants
        if grain in variant.grains
    ]
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
    """The ratio numerator / denominator with 6 decimals.

    None when the denominator is 0 or a side is not known.
    """
    if numerator is None or not denominator:
        return None
    # Rounded once, here: sums are exact until then.
    return round(numerator / denominator, 6)


@cache
def _metrics() -> dict[str, Metric]:
    by_id = {entry.id: entry for entry in loader.metrics()}
    return {metric_id: _metric(entry, by_id) for metric_id, entry in by_id.items()}


def _metric(entry: AnyMetric, by_id: Mapping[str, AnyMetric]) -> Metric:
    if isinstance(entry, StockShape):
        return Metric(entry, _stock(entry, by_id[entry.value.sold]))
    if isinstance(entry, RatioShape):
        sides = (by_id[entry.value.numerator], by_id[entry.value.denominator])
        return Metric(entry, *map(_formula, sides))
    return Metric(entry, _formula(entry))


def _stock(entry: StockShape, sold: AnyMetric) -> StockAt:
    value, takes = entry.value, _formula(sold)
    # The loader has checked that it is a sum.
    assert isinstance(takes, WeightedSum)
    family = FAMILIES[entry.families[0]]
    return StockAt(family, value.stock, takes, value.at == "lowest", value.divide_by)


def _formula(entry: AnyMetric) -> Formula:
    # The loader has checked that parts are of one family, and of a kind that the metric can read.
    family = FAMILIES[entry.families[0]]
    match entry:
        case AdditiveShape():
            return WeightedSum(family, entry.value.sum, entry.value.divide_by)
        case LevelShape():
            return WeightedSum(family, entry.value.running)
        case UniquesShape():
            return UniquesEstimate(family, _part(family, entry.value.uniques, Uniques))
        case PercentileShape():
            part = _part(family, entry.value.percentile.part, Histogram)
            return Percentile(family, part, entry.value.percentile.share)
    # The remaining shapes name one part, whose value is the metric's.
    (name,) = part_fields(entry)
    return Extreme(family, name)


def _part(family: Family, name: str, kind: type[_Kind]) -> _Kind:
    (part,) = (declared for declared in family.parts if declared.name == name)
    assert isinstance(part, kind)
    return part
