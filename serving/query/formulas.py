"""What a metric makes of the parts of a family's rows, once they are joined to those of one row."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

from tally.algebra.merge import Parts
from tally.algebra.parts import Histogram, Uniques
from tally.families import Family

MetricValue = int | float | None
# Of an estimate, as a share of it (Bar-Yossef et al. 2002).
STANDARD_ERROR = round(1 / sqrt(Uniques.KEPT - 2), 4)
# What a bucket's lower end may be short of the numbers in it.
BUCKET_ERROR = 1 / 2 ** (Histogram.STEPS - 1)
# Below it each number has a bucket of its own.
EXACT_SIZES = 2**Histogram.STEPS


@dataclass(frozen=True)
class Formula(ABC):
    """A number made of the parts of one family's rows."""

    family: Family

    @property
    def stated_error(self) -> str | None:
        """How far a value may be off, in words; None where it is what the events say."""
        return None

    @abstractmethod
    def total(self, parts: Parts) -> MetricValue:
        """The value of joined parts; None where nothing was brought that it could be of."""

    def error(self, parts: Parts) -> float | None:
        """How far this value may be off, as a share of it; None without a stated error."""
        return None


@dataclass(frozen=True)
class WeightedSum(Formula):
    """A weighted sum of the parts of one family, divided at the end.

    Units are kept in thousandths. The parts are sums and counts: the loader has looked.
    """

    weights: Mapping[str, int]
    divide_by: int = 1

    def total(self, parts: Parts) -> MetricValue:
        """The value of summed parts; an absent part is 0."""
        weights = self.weights.items()
        total = sum(weight * parts.get(part, 0) for part, weight in weights)
        return total if self.divide_by == 1 else _divided(total, self.divide_by)


@dataclass(frozen=True)
class Extreme(Formula):
    """The least or the most that the events brought, as the part has it."""

    part: str

    def total(self, parts: Parts) -> MetricValue:
        """What the part holds; None of nothing, which no number would be."""
        found: MetricValue = parts.get(self.part)
        return found


@dataclass(frozen=True)
class UniquesEstimate(Formula):
    """How many different subjects there were, by a sketch."""

    part: Uniques

    @property
    def stated_error(self) -> str | None:
        """The standard error, and below which number there is none."""
        percent = f"{100 * STANDARD_ERROR:.1f} %"
        return f"standard error {percent} of the value; exact below {Uniques.KEPT:,}"

    def total(self, parts: Parts) -> MetricValue:
        """The estimate as a whole number, for it is of persons or of things; 0 of nothing."""
        return round(self.part.estimate(self._digests(parts)))

    def error(self, parts: Parts) -> float | None:
        """The standard error; 0 where every subject is in the sketch."""
        return STANDARD_ERROR if len(self._digests(parts)) >= Uniques.KEPT else 0

    def _digests(self, parts: Parts) -> list[int]:
        digests: list[int] = parts.get(self.part.name, self.part.zero)
        return digests


@dataclass(frozen=True)
class Percentile(Formula):
    """The size that a share of the numbers does not exceed, by buckets."""

    part: Histogram
    share: float

    @property
    def stated_error(self) -> str | None:
        """By how much the true one may be larger at most, and below which number it is not."""
        percent = f"{100 * BUCKET_ERROR:.2f} %"
        return f"the true one is at most {percent} larger; exact below {EXACT_SIZES}"

    def total(self, parts: Parts) -> MetricValue:
        """Lower end of the bucket; None of nothing."""
        buckets = parts.get(self.part.name, self.part.zero)
        return self.part.percentile(buckets, self.share)

    def error(self, parts: Parts) -> float | None:
        """By how much the true one may be larger; 0 where each number has its own bucket."""
        value = self.total(parts)
        return 0 if value is None or value < EXACT_SIZES else BUCKET_ERROR


def _divided(total: int, divisor: int) -> int | float:
    # What divides stays an integer, and exact; only the rest becomes a float.
    return total // divisor if total % divisor == 0 else total / divisor
