"""What a metric makes of the parts of a family's rows, once they are joined to those of one row."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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

    def joined(self, rows: Sequence[Parts]) -> Parts:
        """Rows of different values of the axes as one, of the same stretch."""
        # Never as over time: none of them forgets another.
        return self.family.across(rows)

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

    def undivided(self, parts: Parts) -> int:
        """The sum as the parts are kept."""
        weights = self.weights.items()
        return sum(weight * parts.get(part, 0) for part, weight in weights)

    def total(self, parts: Parts) -> MetricValue:
        """The value of summed parts; an absent part is 0."""
        total = self.undivided(parts)
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


@dataclass(frozen=True)
class StockAt(Formula):
    """What there is of articles: at the end of a stretch, or the lowest that there was in it.

    Its rows hold in the place of the level what serving/query/stock.py has made of it: a number,
    None where nobody knows. `sold` is what receipts take from it.
    """

    part: str
    sold: WeightedSum
    is_lowest: bool = False
    divide_by: int = 1

    def joined(self, rows: Sequence[Parts]) -> Parts:
        """Of several articles all together; of the lowest that of the one with the least."""
        levels = [row[self.part] for row in rows]
        # Without the one that nobody has counted it would be too low, or too high, in silence.
        if not levels or None in levels:
            return {self.part: None}
        return {self.part: min(levels) if self.is_lowest else sum(levels)}

    def total(self, parts: Parts) -> MetricValue:
        """The level in units; None where nobody knows."""
        level: int | None = parts[self.part]
        return None if level is None else _divided(level, self.divide_by)

    def exactly(self, level: int) -> Fraction:
        """The level in units, without any rounding."""
        return Fraction(level, self.divide_by)


def _divided(total: int, divisor: int) -> int | float:
    # What divides stays an integer, and exact; only the rest becomes a float.
    return total // divisor if total % divisor == 0 else total / divisor
