"""The parts of a view's row: each is a commutative monoid over the numbers of the events.

An event brings one whole number to each part of its family, at an instant (milliseconds since
1970). `fold` makes the value of some events, `plus` joins two values, `zero` is the value of none.
The order of the events, their grouping and the process that joins them change nothing: so two
layers, and any number of runs, give one answer (tests/laws/algebra/test_parts.py). The same folds
as Spark columns are in tally/spark/part_columns.py.

A value is stored as it is: a whole number, None where no event has brought one, or a list of such.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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

    def value_in(self, values: Mapping[str, Value]) -> Value:
        """The part's value among those by name; an absent one is its zero."""
        return values.get(self.name, self.zero)

    def from_column(self, column: Any) -> Value:
        """The value of a column as Cassandra's driver has read it; null is the part's zero."""
        if self.json == "array":
            # The driver returns tuples where a value has lists.
            return [[*entry] if isinstance(entry, tuple) else entry for entry in column or ()]
        return self.zero if column is None else column

    def minus(self, whole: Value, taken: Value) -> Value:
        """`whole` less `taken`; raises NotImplementedError where is_invertible is False."""
        raise NotImplementedError(f"{self.name}: {type(self).__name__} takes nothing back")


# The parts of a family.
PartList: TypeAlias = Sequence[Part]


class Sum(Part):
    """The sum of the events' numbers, in the part's unit, within 64 bits."""

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


class Count(Sum):
    """The number of events, of any numbers."""

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The number of events."""
        return len(brought)


class _Extremum(Part):
    zero: ClassVar[Value] = None

    def plus(self, left: Value, right: Value) -> Value:
        """The extreme of both values; None where there is none.

        >>> Min("wait_seconds").plus(None, 4)
        4
        """
        return self.fold((), [value for value in (left, right) if value is not None])


class Min(_Extremum):
    """The least of the events' numbers; None without events."""

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The least of the numbers."""
        return min(brought, default=None)


class Max(_Extremum):
    """The greatest of the events' numbers; None without events."""

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The greatest of the numbers."""
        return max(brought, default=None)


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


class PairsPart(Part):
    """A part whose value is a list of pairs of whole numbers, ascending."""

    cql: ClassVar[str] = "frozen<list<frozen<tuple<bigint, bigint>>>>"
    json: ClassVar[str] = "array"
    zero: ClassVar[Value] = []


class SumsByKey(PairsPart):
    """A part whose value is a list of [key, sum]; a sum of 0 is left out."""

    is_invertible: ClassVar[bool] = True

    def plus(self, left: Value, right: Value) -> Value:
        """The sum of both values for each key."""
        return _sum_by_key([*left, *right])

    def minus(self, whole: Value, taken: Value) -> Value:
        """The sums less those of `taken`."""
        return _sum_by_key([*whole, *([key, -amount] for key, amount in taken)])


class Histogram(SumsByKey):
    """The frequency of each size among the events, for percentiles over any stretch and stores.

    A bucket holds the numbers that share their highest STEPS bits: its lower end is off by less
    than 1 / 2 ** (STEPS - 1), 6.25 %; below 2 ** STEPS each number has its own. A value is the
    list of [lower end, how many], ascending. Numbers below zero count as zero.
    """

    STEPS: ClassVar[int] = 5

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The count of numbers in each bucket that has any."""
        return _sum_by_key([[self.bucket(number), 1] for number in brought])

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


class KeyedSum(SumsByKey):
    """A sum for each key. An event brings key and amount in one number (KeyedSum.encode).

    A value is the list of [key, sum], ascending; a sum of 0 is left out. It is for few keys, as
    those of sensors, since each of them has its place in the row.

    >>> seconds_by_key = KeyedSum("observed_seconds")
    >>> seconds_by_key.fold([0, 0], [KeyedSum.encode(7, 60), KeyedSum.encode(7, 30)])
    [[7, 90]]
    """

    # The lowest bits are the amount: the seconds of a window fit, and all above them is the key.
    AMOUNT_BITS: ClassVar[int] = 10
    MAX_AMOUNT: ClassVar[int] = 2**AMOUNT_BITS - 1
    KEYS: ClassVar[int] = MAX_PART >> AMOUNT_BITS

    @classmethod
    def encode(cls, key: int, amount: int) -> int:
        """The number of an event that adds an amount (0 to MAX_AMOUNT) to a key (below KEYS)."""
        return key << cls.AMOUNT_BITS | amount

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The sum of each key that the events contribute to."""
        return _sum_by_key(
            (number >> self.AMOUNT_BITS, number & self.MAX_AMOUNT) for number in brought
        )

    @staticmethod
    def seconds_by_key(value: Value) -> dict[int, int]:
        """The sum of each key, if the amounts are seconds."""
        return dict(value)


# Key, first second, and the second after the last one.
_KeyedSeconds: TypeAlias = tuple[int, int, int]


class KeyedSpans(PairsPart):
    """The seconds of a window that each key covers.

    An event brings a key, and the number of seconds that it covers from the event's instant on
    (KeyedSum.encode). A value is the list of [key, span], ascending; spans of a key neither touch
    nor overlap, so a second that is reported twice, by an interval and by a heartbeat, counts once.
    A span is its first second within the window and its length in one number (encode_span).

    >>> spans = KeyedSpans("observed")
    >>> value = spans.fold([0, 30_000, 600_000], [KeyedSum.encode(7, 60)] * 3)
    >>> KeyedSpans.seconds_by_key(value)
    {7: 150}
    """

    is_timed: ClassVar[bool] = True
    # The length of a window (tally/time/windows.py).
    SECONDS: ClassVar[int] = 900

    @classmethod
    def encode_span(cls, first: int, length: int) -> int:
        """The number of a span: `length` seconds (1 to 900) from the second `first` (0 to 899)."""
        return first << KeyedSum.AMOUNT_BITS | length

    @classmethod
    def seconds_by_key(cls, value: Value) -> dict[int, int]:
        """The number of seconds that each key covers."""
        found: dict[int, int] = {}
        for key, span in value:
            found[key] = found.get(key, 0) + (span & KeyedSum.MAX_AMOUNT)
        return found

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The union of the spans of each key, cut at the window's end."""
        spans = []
        for instant, number in zip(at, brought, strict=True):
            first = instant // 1000 % self.SECONDS
            end = min(first + (number & KeyedSum.MAX_AMOUNT), self.SECONDS)
            spans.append((number >> KeyedSum.AMOUNT_BITS, first, end))
        return self._union(spans)

    def plus(self, left: Value, right: Value) -> Value:
        """The union of the spans of both values."""
        spans = []
        for key, span in (*left, *right):
            first = span >> KeyedSum.AMOUNT_BITS
            spans.append((key, first, first + (span & KeyedSum.MAX_AMOUNT)))
        return self._union(spans)

    @classmethod
    def _union(cls, spans: Iterable[_KeyedSeconds]) -> list[list[int]]:
        joined: list[_KeyedSeconds] = []
        for key, first, end in sorted(spans):
            last = joined[-1] if joined else None
            if last and last[0] == key and first <= last[2]:
                joined[-1] = key, last[1], max(last[2], end)
            elif first < end:
                joined.append((key, first, end))
        return [[key, cls.encode_span(first, end - first)] for key, first, end in joined]


def _sum_by_key(pairs: Iterable[Sequence[int]]) -> list[list[int]]:
    """The sum of each key of [key, number] pairs, by key ascending; a sum of 0 is left out."""
    found: dict[int, int] = {}
    for key, number in pairs:
        found[key] = found.get(key, 0) + number
    return [[key, found[key]] for key in sorted(found) if found[key]]


def _clamp_sum(total: int) -> int:
    return max(-MAX_SUM, min(MAX_SUM, total))
