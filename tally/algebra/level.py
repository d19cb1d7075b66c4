"""The level at an instant: the part for stock on a shelf and for people in a shop."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from typing import ClassVar

from tally.algebra.parts import Numbers, PairsPart, Value


@dataclass(frozen=True)
class Level(PairsPart):
    """The level at the end of a stretch: the last count, and the movements after it.

    An event brings a count (Level.count) or a movement (Level.moved). A value is the list of
    [instant, event's number] from the last count on, ascending; events before a count are
    discarded, for the count includes them. At one instant the count comes first.

    >>> stock = Level("stock")
    >>> sold, returned = Level.encode_movement(-4), Level.encode_movement(1)
    >>> value = stock.fold([1, 2, 3], [Level.encode_count(10), sold, returned])
    >>> stock.at_end(value)
    7
    """

    is_timed: ClassVar[bool] = True

    @staticmethod
    def encode_count(number: int) -> int:
        """The number of an event that has counted so many."""
        return 2 * number

    @staticmethod
    def encode_movement(number: int) -> int:
        """The number of an event that has added so many, or taken away (below zero)."""
        return 2 * number + 1

    def fold(self, at: Numbers, brought: Numbers) -> Value:
        """The events from the last count on."""
        # By instant and not by arrival: a count that came late still says what was there then.
        return self._drop_before_last_count(sorted(zip(at, brought, strict=True), key=_time_order))

    def plus(self, left: Value, right: Value) -> Value:
        """The events of both values, from the last count on."""
        return self._drop_before_last_count(list(merge(left, right, key=_time_order)))

    def at_end(self, value: Value) -> int | None:
        """The last count plus the movements since; None while there is no count."""
        if not value or _is_movement(value[0]):
            return None
        return int(sum(number >> 1 for _, number in value))

    @staticmethod
    def _drop_before_last_count(events: Sequence[Sequence[int]]) -> list[list[int]]:
        counts = (place for place, event in enumerate(events) if not _is_movement(event))
        return [[*event] for event in events[max(counts, default=0) :]]


def _is_movement(event: Sequence[int]) -> bool:
    return bool(event[1] & 1)


def _time_order(event: Sequence[int]) -> tuple[int, bool, int]:
    return event[0], _is_movement(event), event[1]
