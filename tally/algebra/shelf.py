"""What there is of articles, window by window: the last count of each, and what moved since.

A level that never begins anew but by a count. What a window brings is a value of the part Level
(tally/algebra/level.py): of whatever families, joined by its `plus`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tally.algebra.parts import Value

# What there is of an article; None: nobody knows.
OnHand = int | None


class Reached(NamedTuple):
    """What there is after the events of a window, and the lowest that there was in it."""

    level: OnHand
    lowest: OnHand


def is_counted(events: Value) -> bool:
    """Whether a count is among the events: then it is the first, for it says all before it.

    >>> from tally.algebra.level import Level
    >>> is_counted([[7, Level.count(0)]]), is_counted([[7, Level.moved(2)]]), is_counted([])
    (True, False, False)
    """
    return bool(events) and not events[0][1] & 1


def reached(before: OnHand, events: Value) -> Reached:
    """Behind the events of a window that began with `before`.

    Of one with a count the lowest is that from the count on. Below 0 nothing is cut off.

    >>> from tally.algebra.level import Level
    >>> reached(5, [[1, Level.moved(-7)], [2, Level.moved(3)]])
    Reached(level=1, lowest=-2)
    >>> reached(None, [[1, Level.count(4)], [2, Level.moved(-1)]])
    Reached(level=3, lowest=3)
    """
    brought = [number >> 1 for _, number in events]
    if not is_counted(events):
        if before is None:
            return Reached(None, None)
        brought.insert(0, before)
    levels = [*accumulate(brought)]
    return Reached(levels[-1], min(levels))


@dataclass
class Shelf:
    """The articles of a store, as of the end of the last window taken.

    `lowest` is that of the stretch since begin(), of the articles that moved in it.
    """

    levels: dict[str, OnHand] = field(default_factory=dict)
    lowest: dict[str, OnHand] = field(default_factory=dict)
    _is_new: bool = True

    def begin(self) -> None:
        """Another stretch begins with the next window."""
        self.lowest = {}
        self._is_new = True

    def take(self, moves: Mapping[str, Value]) -> None:
        """One more window: by article its events, of those that have any."""
        for article, events in moves.items():
            before = self.levels.get(article)
            after = reached(before, events)
            # What was reckoned before a count is overruled by it, not judged beside it.
            is_overruled = self._is_new and is_counted(events)
            so_far = after.lowest if is_overruled else self.lowest.get(article, before)
            self.levels[article] = after.level
            self.lowest[article] = _lesser(so_far, after.lowest)
        self._is_new = False

    def forget(self) -> None:
        """A window of which nobody knows what moved: of no article is known what there is."""
        # Until it is counted again: then it does not matter any more what nobody has seen.
        known = [article for article, level in self.levels.items() if level is not None]
        self.lowest = dict.fromkeys((*self.lowest, *known))
        self.levels |= dict.fromkeys(known)
        self._is_new = False

    def lowest_levels(self) -> dict[str, OnHand]:
        """By article the lowest of the stretch; of one that did not move that is what there is."""
        return {**self.levels, **self.lowest}

    def reached(self) -> dict[str, Reached]:
        """By article what there is, and the lowest of the stretch."""
        return _joined(self.levels, self.lowest_levels())

    def moved(self) -> dict[str, Reached]:
        """The same of the articles that moved in the stretch, or are not known any more."""
        return _joined(self.levels, self.lowest)


def _joined(
    levels: Mapping[str, OnHand],
    lowest: Mapping[str, OnHand],
) -> dict[str, Reached]:
    return {one: Reached(levels[one], least) for one, least in lowest.items()}


def _lesser(one: OnHand, other: OnHand) -> OnHand:
    return None if one is None or other is None else min(one, other)
