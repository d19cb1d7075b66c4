"""The formulas of metrics over the parts of a family's rows, once rows are joined to one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import sqrt

from tally.algebra.merge import Parts
from tally.algebra.parts import Histogram, Uniques
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

    family: Family

    @property
    def error_description(self) -> str | None:
        """How far a value may be off, in words; None where it is exact."""
        return None

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
    """A weighted sum of the parts of one family, divided at the end.

    Units are kept in thousandths. The parts are sums and counts, which the loader has checked.
    """

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

    part: Uniques

    @property
    def error_description(self) -> str | None:
        """The standard error, and the number below which the value is exact."""
        percent = f"{100 * STANDARD_ERROR:.1f} %"
        return f"standard error {percent} of the value; exact below {Uniques.SKETCH_SIZE:,}"

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

    part: Histogram
    share: float

    @property
    def error_description(self) -> str | None:
        """The most by which the true size may be larger, and the size below which it is exact."""
        percent = f"{100 * BUCKET_ERROR:.2f} %"
        return f"the true one is at most {percent} larger; exact below {EXACT_SIZES}"

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

    In place of the level its rows hold what serving/stock/stock.py has computed from it: a number,
    or None where it is not known. `sales` is what receipts take from the stock.
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
    """The stock of one store: its formula, and since when (UTC) its articles are counted.

    `since` is the window of the earliest of the articles' last counts before the asked stretches;
    `articles` are those that the store has documents of.
    """

    stock: StockAt
    since: datetime
    articles: frozenset[str]
