"""The metric catalogue as formulas over additive parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from runtime.sources import FAMILIES
from schemas import loader
from tally.algebra.merge import Parts
from tally.errors import UnknownName
from tally.families import Family

MetricValue = int | float | None


@dataclass(frozen=True)
class WeightedSum:
    """A weighted sum of the parts of one family, divided at the end.

    Units are kept in thousandths.
    """

    family: Family
    weights: Mapping[str, int]
    divide_by: int = 1

    def total(self, parts: Parts) -> MetricValue:
        """The value of summed parts; an absent part is 0."""
        total = sum(weight * parts.get(part, 0) for part, weight in self.weights.items())
        return total if self.divide_by == 1 else _divided(total, self.divide_by)


@dataclass(frozen=True)
class Metric:
    """A metric: a sum, or the ratio of two sums when `denominator` is there."""

    entry: Mapping[str, Any]
    numerator: WeightedSum
    denominator: WeightedSum | None = None

    @property
    def is_money(self) -> bool:
        """Whether the value is in minor units of a currency."""
        return bool(self.entry["unit"] == "minor")

    @property
    def families(self) -> tuple[Family, ...]:
        """The families whose windows must be there for the metric to have a value."""
        sides = (self.numerator, self.denominator) if self.denominator else (self.numerator,)
        return tuple(dict.fromkeys(side.family for side in sides))


def metric(metric_id: str) -> Metric:
    """The metric of an id. Raises UnknownName."""
    found = _metrics().get(metric_id)
    if found is None:
        raise UnknownName(
            "metric",
            # What a stranger asks for goes back in the answer: not all of it.
            f"there is no metric {metric_id[:64]!r};"
            f" there are {', '.join(_metrics())} (GET /v1/metrics)",
        )
    return found


def entries() -> list[dict[str, Any]]:
    """What /v1/metrics lists of each metric by field, ordered by id."""
    shown = ("id", "name", "unit", "kind", "families", "formula", "variants", "by", "grains")
    return [
        {**{name: entry[name] for name in shown}, "meaning": entry["meaning"]}
        for entry in loader.metrics()
    ]


def ratio(numerator: MetricValue, denominator: MetricValue) -> float | None:
    """Numerator / denominator with 6 decimals.

    None when the denominator is 0 or a side is not known.
    """
    if numerator is None or not denominator:
        return None
    # Rounded once, here: sums are exact until then.
    return round(numerator / denominator, 6)


@cache
def _metrics() -> dict[str, Metric]:
    by_id = {entry["id"]: entry for entry in loader.metrics()}
    return {metric_id: _metric(entry, by_id) for metric_id, entry in by_id.items()}


def _metric(
    entry: Mapping[str, Any],
    by_id: Mapping[str, Mapping[str, Any]],
) -> Metric:
    value = entry["value"]
    if "sum" in value:
        return Metric(entry, _sum(entry))
    return Metric(
        entry,
        _sum(by_id[value["numerator"]]),
        _sum(by_id[value["denominator"]]),
    )


def _sum(entry: Mapping[str, Any]) -> WeightedSum:
    return WeightedSum(
        # A sum is of one family; of a ratio each side is a metric of its own, with its own.
        FAMILIES[entry["families"][0]],
        entry["value"]["sum"],
        entry["value"].get("divide_by", 1),
    )


def _divided(total: int, divisor: int) -> int | float:
    # What divides stays an integer, and exact; only the rest becomes a float.
    return total // divisor if total % divisor == 0 else total / divisor
