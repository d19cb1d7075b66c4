"""The parts of a view's row: each is a commutative monoid over the numbers of the events.

An event brings one whole number to each part of its family, at an instant (milliseconds since
1970). `fold` makes the value of some events, `plus` joins two values, `zero` is the value of none.
The order of the events, their grouping and the process that joins them change nothing: so two
layers, and any number of runs, give one answer (tests/laws/algebra/test_parts.py). The same folds
as Spark columns are in tally/spark/part_columns.py.

A value is stored as it is: a whole number, None where no event has brought one, or a list of such.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, TypeAlias

# The largest number of a canonical record: far above what the contracts accept, and far below what
# a 64-bit sum or a key of a table takes. A record beyond it is not read.
MAX_PART = 10**12
# The bound of a sum: one more part always fits into 64 bits.
MAX_SUM = 2**63 - 1 - MAX_PART

Value: TypeAlias = Any
Numbers: TypeAlias = Sequence[int]


@dataclass(frozen=True)
class Part(ABC):
    """One part of a family: `name` is the column in its rows, `unit` the unit of the counts."""

    name: str
    unit: str = ""
    meaning: str = ""
    # Whether records may lack the part: then they bring 0.
    is_optional: bool = False

    cql: ClassVar[str] = "bigint"
    json: ClassVar[str] = "integer"
    zero: ClassVar[Value] = 0
    # Whether `minus` takes back what `plus` has added. A part that is not invertible is not served
    # from a side that holds events which the other side has excluded.
    is_invertible: ClassVar[bool] = False
    # Whether the instants of the events matter, and not only their numbers.
    is_timed: ClassVar[bool] = False

    @abstractmethod
    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The value of some events, each of which has one place in both lists."""

    @abstractmethod
    def plus(self, left: Value, right: Value) -> Value:
        """The join of both values; associative, commutative, `zero` changes nothing."""

    def join_over_time(self, earlier: Value, later: Value) -> Value:
        """The join of both values in an answer, which is stored nowhere."""
        return self.plus(earlier, later)

    def from_column(self, column: Any) -> Value:
        """The value of a column as Cassandra's driver has read it; null is the part's zero."""
        if self.json == "array":
            # The driver returns tuples where a value has lists.
            return [[*entry] if isinstance(entry, tuple) else entry for entry in column or ()]
        return self.zero if column is None else column

    def minus(self, whole: Value, taken: Value) -> Value:
        """`whole` without what was added to it as `taken`.

        Raises NotImplementedError where is_invertible is False.
        """
        raise NotImplementedError(f"{self.name}: {type(self).__name__} takes nothing back")


@dataclass(frozen=True)
class Sum(Part):
    """The sum of the events' numbers, in the part's unit, within 64 bits.

    >>> Sum("gross_minor").fold([0, 0], [250, 99])
    349
    """

    is_invertible: ClassVar[bool] = True

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The sum, within MAX_SUM: an overflow would end a query, and each of its restarts."""
        return _clamp_sum(sum(brought))

    def plus(self, left: Value, right: Value) -> Value:
        """The sum of both, within MAX_SUM."""
        return _clamp_sum(left + right)

    def join_over_time(self, earlier: Value, later: Value) -> Value:
        """The sum without a bound: nothing overflows in an answer."""
        return earlier + later

    def minus(self, whole: Value, taken: Value) -> Value:
        """The difference of both sums."""
        return whole - taken


@dataclass(frozen=True)
class Count(Sum):
    """The number of events, of any numbers.

    >>> Count("reports").fold([0, 0, 0], [5, 0, 7])
    3
    """

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The number of events."""
        return len(brought)


@dataclass(frozen=True)
class Min(Part):
    """The least of the events' numbers; None without events.

    >>> Min("wait_seconds").plus(None, 4)
    4
    """

    zero: ClassVar[Value] = None

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The least of the numbers."""
        return min(brought, default=None)

    def plus(self, left: Value, right: Value) -> Value:
        """The lesser of both values."""
        return min((value for value in (left, right) if value is not None), default=None)


@dataclass(frozen=True)
class Max(Part):
    """The greatest of the events' numbers; None without events.

    >>> Max("queue_length").fold([0, 0], [3, 11])
    11
    """

    zero: ClassVar[Value] = None

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The greatest of the numbers."""
        return max(brought, default=None)

    def plus(self, left: Value, right: Value) -> Value:
        """The greater of both values."""
        return max((value for value in (left, right) if value is not None), default=None)


@dataclass(frozen=True)
class Uniques(Part):
    """The number of different numbers of the events, estimated from the KEPT smallest of them.

    An event's number is an evenly spread digest of a subject from 0 to MAX_PART, never the
    subject. Up to KEPT different ones the count is exact; above it the estimate has a standard
    error of 1 / sqrt(KEPT - 2), 3.1 %. A set of subjects has one value for any order of arrival:
    two layers that have seen the same events hold the same value, which sketches that depend on the
    order of updates do not give (ADR 014). Source: Bar-Yossef et al. 2002, "k minimum values".
    """

    cql: ClassVar[str] = "frozen<list<bigint>>"
    json: ClassVar[str] = "array"
    zero: ClassVar[Value] = []
    SKETCH_SIZE: ClassVar[int] = 1024

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The smallest numbers, ascending, each once."""
        # Ascending, so that equal sets are equal lists.
        return sorted(set(brought))[: self.SKETCH_SIZE]

    def plus(self, left: Value, right: Value) -> Value:
        """The smallest numbers of both values."""
        return self.fold((), [*left, *right])

    def estimate(self, value: Value) -> float:
        """The estimated number of different subjects.

        >>> Uniques("visitors").estimate([7, 400, 10**12])
        3.0
        """
        if len(value) < self.SKETCH_SIZE:
            return float(len(value))
        return float((self.SKETCH_SIZE - 1) * MAX_PART / max(value[-1], 1))


@dataclass(frozen=True)
class PairsPart(Part):
    """A part whose value is a list of pairs of whole numbers, ascending."""

    cql: ClassVar[str] = "frozen<list<frozen<tuple<bigint, bigint>>>>"
    json: ClassVar[str] = "array"
    zero: ClassVar[Value] = []


@dataclass(frozen=True)
class SumsByKey(PairsPart):
    """A part whose value is a list of [key, sum]; a sum of 0 is left out."""

    is_invertible: ClassVar[bool] = True

    def plus(self, left: Value, right: Value) -> Value:
        """The sum of both values for each key."""
        return sum_by_key([*left, *right])

    def minus(self, whole: Value, taken: Value) -> Value:
        """The sums less those of `taken`."""
        less = ([key, -amount] for key, amount in taken)
        return sum_by_key([*whole, *less])


@dataclass(frozen=True)
class Histogram(SumsByKey):
    """The frequency of each size among the events, for percentiles over any stretch and stores.

    A bucket holds the numbers that share their highest STEPS bits: its lower end is off by less
    than 1 / 2 ** (STEPS - 1), 6.25 %; below 2 ** STEPS each number has its own. A value is the
    list of [lower end, how many], ascending. Numbers below zero count as zero.
    """

    STEPS: ClassVar[int] = 5

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The count of numbers in each bucket that has any."""
        return sum_by_key([[self.bucket(number), 1] for number in brought])

    @classmethod
    def bucket(cls, number: int) -> int:
        """Lower end of the bucket that holds the number.

        >>> Histogram.bucket(31), Histogram.bucket(64), Histogram.bucket(67)
        (31, 64, 64)
        """
        # By whole numbers: with a logarithm of doubles the place of a border would vary.
        number = max(number, 0)
        lost = max(0, number.bit_length() - cls.STEPS)
        return number >> lost << lost

    def percentile(self, value: Value, share: float) -> int | None:
        """Lower end of the bucket up to which `share` (0 to 1) of the numbers lie; None if empty.

        >>> Histogram("dwell_seconds").percentile([[10, 3], [20, 1]], 0.5)
        10
        """
        reached = list(accumulate(count for _, count in value))
        wanted = share * reached[-1] if reached else 0
        buckets = zip(value, reached, strict=True)
        return next((end for (end, _), so_far in buckets if so_far >= wanted), None)


def sum_by_key(pairs: Iterable[Sequence[int]]) -> list[list[int]]:
    """The sum of each key of [key, number] pairs, by key ascending; a sum of 0 is left out."""
    found: dict[int, int] = {}
    for key, number in pairs:
        found[key] = found.get(key, 0) + number
    return [[key, found[key]] for key in sorted(found) if found[key]]


def _clamp_sum(total: int) -> int:
    return max(-MAX_SUM, min(MAX_SUM, total))
