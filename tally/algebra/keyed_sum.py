"""Sums and stretches by key, for the time in which each of a store's sensors was working."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from tally.algebra.parts import MAX_PART, Numbers, PairsPart, SumsByKey, Value, sum_by_key


@dataclass(frozen=True)
class KeyedSum(SumsByKey):
    """A sum for each key. An event brings key and amount in one number (KeyedSum.brings).

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
        return sum_by_key(
            (number >> self.AMOUNT_BITS, number & self.MAX_AMOUNT) for number in brought
        )

    @staticmethod
    def seconds_by_key(value: Value) -> dict[int, int]:
        """The sum of each key, if the amounts are seconds."""
        return dict(value)


_MILLIS = 1000
# Key, first second, and the second after the last one.
_KeyedSeconds: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class KeyedSpans(PairsPart):
    """The seconds of a window that each key covers.

    An event brings a key, and the number of seconds that it covers from the event's instant on
    (KeyedSum.brings). A value is the list of [key, span], ascending; spans of a key neither touch
    nor overlap, so a second that is reported twice, by an interval and by a heartbeat, counts once.
    A span is its first second within the window and its length in one number (KeyedSpans.span).

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
            first = instant // _MILLIS % self.SECONDS
            end = min(first + (number & KeyedSum.MAX_AMOUNT), self.SECONDS)
            spans.append((number >> KeyedSum.AMOUNT_BITS, first, end))
        return self._union(spans)

    def plus(self, left: Value, right: Value) -> Value:
        """The union of the spans of both values."""
        return self._union(self._decode(pair) for pair in (*left, *right))

    @staticmethod
    def _decode(pair: Sequence[int]) -> _KeyedSeconds:
        """The key, first second and end of a stored pair."""
        key, span = pair
        first = span >> KeyedSum.AMOUNT_BITS
        return key, first, first + (span & KeyedSum.MAX_AMOUNT)

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
