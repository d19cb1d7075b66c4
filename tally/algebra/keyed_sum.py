"""Sums by key, for the time of a window in which each of a store's sensors was working."""

from dataclasses import dataclass
from typing import ClassVar

from tally.algebra.parts import MAX_PART, Numbers, Part, Value, sum_by_key


@dataclass(frozen=True)
class KeyedSum(Part):
    """A sum for each key. An event brings key and amount in one number (KeyedSum.brings).

    A value is the list of [key, sum], ascending; a sum of 0 is left out. It is for few keys, as
    those of sensors, since each of them has its place in the row.

    >>> seconds_by_key = KeyedSum("observed_seconds")
    >>> seconds_by_key.fold([0, 0], [KeyedSum.encode(7, 60), KeyedSum.encode(7, 30)])
    [[7, 90]]
    """

    cql: ClassVar[str] = "frozen<list<frozen<tuple<bigint, bigint>>>>"
    json: ClassVar[str] = "array"
    zero: ClassVar[Value] = []
    is_invertible: ClassVar[bool] = True
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

    def plus(self, left: Value, right: Value) -> Value:
        """The sum of both values for each key."""
        return sum_by_key([*left, *right])

    def minus(self, whole: Value, taken: Value) -> Value:
        """The sums less those of `taken`."""
        less = [(key, -amount) for key, amount in taken]
        return sum_by_key([*whole, *less])
