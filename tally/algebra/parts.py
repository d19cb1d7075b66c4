"""What a row of a view counts: each part is a commutative monoid over what the events bring to it.

An event brings one whole number to each part of its family, at an instant (milliseconds since
1970). `of` makes the value of some events, `plus` joins two values, `zero` is the value of none.
The order of the events, their grouping and who joins them change nothing: that is what lets two
layers, and any number of runs, give one answer (tests/laws/test_parts.py). The same folds as Spark
columns are in tally/part_columns.py.

A value is what is stored: a whole number, None where nothing was brought, or a list of such.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, TypeAlias

# What one canonical record may hold at most: far above what the contracts let through, and far
# below what a 64-bit sum or a key of a table takes. A record beyond is not read.
MOST_PART = 10**12
# Where a sum ends: one more part always fits into 64 bits.
MOST_SUM = 2**63 - 1 - MOST_PART

Value: TypeAlias = Any
Numbers: TypeAlias = Sequence[int]


@dataclass(frozen=True)
class Part(ABC):
    """One part of a family: its name is the column of its rows, `unit` what it is counted in."""

    name: str
    unit: str = ""
    meaning: str = ""
    # Whether records may lack it: then they bring 0.
    is_optional: bool = False

    cql: ClassVar[str] = "bigint"
    json: ClassVar[str] = "integer"
    zero: ClassVar[Value] = 0
    # Whether `minus` takes back what `plus` has added. What cannot be taken back is not served
    # from a side that holds what the other has excluded.
    is_invertible: ClassVar[bool] = False
    # Whether the instants of the events matter, and not only what they bring.
    is_timed: ClassVar[bool] = False

    @abstractmethod
    def of(self, at: Numbers, brought: Numbers) -> Value:
        """The value of some events, one place in each list an event."""

    @abstractmethod
    def plus(self, one: Value, other: Value) -> Value:
        """Both together; associative, commutative, `zero` changes nothing."""

    def over_time(self, earlier: Value, later: Value) -> Value:
        """Both in an answer, which is stored nowhere."""
        return self.plus(earlier, later)

    def read(self, column: Any) -> Value:
        """The value of a column as Cassandra's driver has read it; null is none."""
        if self.json == "array":
            # The driver has tuples where a value has lists.
            return [[*one] if isinstance(one, tuple) else one for one in column or ()]
        return self.zero if column is None else column

    def minus(self, whole: Value, taken: Value) -> Value:
        """`whole` without what was added to it as `taken`.

        Raises NotImplementedError where is_invertible is False.
        """
        raise NotImplementedError(f"{self.name}: {type(self).__name__} takes nothing back")


@dataclass(frozen=True)
class Sum(Part):
    """The sum of what the events bring, in the part's unit, within 64 bits.

    >>> Sum("gross_minor").of([0, 0], [250, 99])
    349
    """

    is_invertible: ClassVar[bool] = True

    def of(self, at: Numbers, brought: Numbers) -> Value:
        """The sum, within MOST_SUM: an overflow would end a query, and each of its restarts."""
        return _within(sum(brought))

    def plus(self, one: Value, other: Value) -> Value:
        """The sum of both, within MOST_SUM."""
        return _within(one + other)

    def over_time(self, earlier: Value, later: Value) -> Value:
        """The sum without a bound: nothing overflows in an answer."""
        return earlier + later

    def minus(self, whole: Value, taken: Value) -> Value:
        """The difference."""
        return whole - taken


@dataclass(frozen=True)
class Count(Sum):
    """How many events, whatever they bring.

    >>> Count("reports").of([0, 0, 0], [5, 0, 7])
    3
    """

    def of(self, at: Numbers, brought: Numbers) -> Value:
        """How many there are."""
        return len(brought)


@dataclass(frozen=True)
class Min(Part):
    """The least of what the events bring; None of none.

    >>> Min("wait_seconds").plus(None, 4)
    4
    """

    zero: ClassVar[Value] = None

    def of(self, at: Numbers, brought: Numbers) -> Value:
        """The least."""
        return min(brought, default=None)

    def plus(self, one: Value, other: Value) -> Value:
        """The lesser."""
        return min((value for value in (one, other) if value is not None), default=None)


@dataclass(frozen=True)
class Max(Part):
    """The most of what the events bring; None of none.

    >>> Max("queue_length").of([0, 0], [3, 11])
    11
    """

    zero: ClassVar[Value] = None

    def of(self, at: Numbers, brought: Numbers) -> Value:
        """The most."""
        return max(brought, default=None)

    def plus(self, one: Value, other: Value) -> Value:
        """The greater."""
        return max((value for value in (one, other) if value is not None), default=None)


@dataclass(frozen=True)
class Uniques(Part):
    """How many different numbers the events bring, by the KEPT smallest of them.

    What is brought is an evenly spread digest of a subject from 0 to MOST_PART, never the subject.
    Up to KEPT different ones the count is exact; above it the estimate has a standard error of
    1 / sqrt(KEPT - 2), 3.1 %. A set of subjects has one value, in whatever order they came: two
    layers that have seen the same events hold the same, which sketches that depend on the order of
    updates do not give (ADR 014). Source: Bar-Yossef et al. 2002, "k minimum values".
    """

    cql: ClassVar[str] = "frozen<list<bigint>>"
    json: ClassVar[str] = "array"
    zero: ClassVar[Value] = []
    KEPT: ClassVar[int] = 1024

    def of(self, at: Numbers, brought: Numbers) -> Value:
        """The smallest, ascending, each once."""
        # Ascending, so that equal sets are equal lists.
        return sorted(set(brought))[: self.KEPT]

    def plus(self, one: Value, other: Value) -> Value:
        """The smallest of both."""
        return self.of((), [*one, *other])

    def estimate(self, value: Value) -> float:
        """How many different subjects there were.

        >>> Uniques("visitors").estimate([7, 400, 10**12])
        3.0
        """
        if len(value) < self.KEPT:
            return float(len(value))
        return float((self.KEPT - 1) * MOST_PART / max(value[-1], 1))


@dataclass(frozen=True)
class Histogram(Part):
    """How often which size was brought, for percentiles over any stretch and any stores.

    A bucket holds the numbers that share their highest STEPS bits: its lower end is off by less
    than 1 / 2 ** (STEPS - 1), 6.25 %; below 2 ** STEPS each number has its own. A value is the
    list of [lower end, how many], ascending. Numbers below zero count as zero.
    """

    cql: ClassVar[str] = "frozen<list<frozen<tuple<bigint, bigint>>>>"
    json: ClassVar[str] = "array"
    zero: ClassVar[Value] = []
    is_invertible: ClassVar[bool] = True
    STEPS: ClassVar[int] = 5

    def of(self, at: Numbers, brought: Numbers) -> Value:
        """How many in each bucket that has any."""
        return summed([[self.bucket(number), 1] for number in brought])

    def plus(self, one: Value, other: Value) -> Value:
        """Both counts of each bucket."""
        return summed([*one, *other])

    def minus(self, whole: Value, taken: Value) -> Value:
        """The counts less those that were added."""
        less = ([bucket, -count] for bucket, count in taken)
        return summed([*whole, *less])

    @classmethod
    def bucket(cls, number: int) -> int:
        """Lower end of the bucket that holds the number.

        >>> Histogram.bucket(31), Histogram.bucket(64), Histogram.bucket(67)
        (31, 64, 64)
        """
        # By whole numbers: a logarithm of doubles puts a border now here, now there.
        number = max(number, 0)
        lost = max(0, number.bit_length() - cls.STEPS)
        return number >> lost << lost

    def percentile(self, value: Value, share: float) -> int | None:
        """Lower end of the bucket below which `share` (0 to 1) of the numbers lie; None of none.

        >>> Histogram("dwell_seconds").percentile([[10, 3], [20, 1]], 0.5)
        10
        """
        reached = list(accumulate(count for _, count in value))
        wanted = share * reached[-1] if reached else 0
        buckets = zip(value, reached, strict=True)
        return next((end for (end, _), so_far in buckets if so_far >= wanted), None)


def summed(pairs: Iterable[Sequence[int]]) -> list[list[int]]:
    """The sum of each key of [key, number] pairs, by key ascending; a sum of 0 is left out."""
    found: dict[int, int] = {}
    for key, number in pairs:
        found[key] = found.get(key, 0) + number
    return [[key, found[key]] for key in sorted(found) if found[key]]


def _within(total: int) -> int:
    return max(-MOST_SUM, min(MOST_SUM, total))
