"""The stock of articles, window by window: the last count of each, and the movements since.

It is a level that only a count resets. The events of a window are a value of the part Level
(tally/algebra/level.py), of any families, joined by its `plus`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tally.algebra.parts import Value

# The stock of an article; None if unknown.
OnHand = int | None


class WindowStock(NamedTuple):
    """The stock after the events of a window, and the lowest stock in it."""

    level: OnHand
    lowest: OnHand


def has_count(events: Value) -> bool:
    """Whether a count is among the events: then it is the first, for it includes all before it.

    >>> from tally.algebra.level import Level
    >>> has_count([[7, Level.encode_count(0)]]), has_count([[7, Level.encode_movement(2)]])
    (True, False)
    """
    return bool(events) and not events[0][1] & 1


def apply_events(before: OnHand, events: Value) -> WindowStock:
    """The stock after the events of a window that began with `before`, and the lowest in it.

    In a window with a count the lowest is that from the count on. Numbers below 0 are kept.

    >>> from tally.algebra.level import Level
    >>> apply_events(5, [[1, Level.encode_movement(-7)], [2, Level.encode_movement(3)]])
    WindowStock(level=1, lowest=-2)
    >>> apply_events(None, [[1, Level.encode_count(4)], [2, Level.encode_movement(-1)]])
    WindowStock(level=3, lowest=3)
    """
    brought = [number >> 1 for _, number in events]
    if not has_count(events):
        if before is None:
            return WindowStock(None, None)
        brought.insert(0, before)
    levels = [*accumulate(brought)]
    return WindowStock(levels[-1], min(levels))


@dataclass
class StockLevels:
    """The stock of a store's articles at the end of the last window that was taken.

    `lowest` is the lowest stock since begin(), of the articles that moved since.
    """

    levels: dict[str, OnHand] = field(default_factory=dict)
    lowest: dict[str, OnHand] = field(default_factory=dict)
    _is_new: bool = True

    def start_stretch(self) -> None:
        """Begin another stretch with the next window."""
        self.lowest = {}
        self._is_new = True

    def add_window(self, moves: Mapping[str, Value]) -> None:
        """Add one more window: by article its events, of those that have any."""
        for article, events in moves.items():
            before = self.levels.get(article)
            after = apply_events(before, events)
            # A count overrules what was computed before it; that is not judged beside the count.
            is_overruled = self._is_new and has_count(events)
            so_far = after.lowest if is_overruled else self.lowest.get(article, before)
            self.levels[article] = after.level
            self.lowest[article] = _lesser(so_far, after.lowest)
        self._is_new = False

    def mark_unknown(self) -> None:
        """Add a window whose movements are unknown: the stock of every article is unknown then."""
        # Until an article is counted again: then unseen movements do not matter any more.
        known = [article for article, level in self.levels.items() if level is not None]
        self.lowest = dict.fromkeys((*self.lowest, *known))
        self.levels |= dict.fromkeys(known)
        self._is_new = False

    def lowest_levels(self) -> dict[str, OnHand]:
        """By article the lowest stock of the stretch, or the current stock if it did not move."""
        return {**self.levels, **self.lowest}

    def current_stock(self) -> dict[str, WindowStock]:
        """By article the current stock, and the lowest of the stretch."""
        return _stock_by_article(self.levels, self.lowest_levels())

    def stock_changes(self) -> dict[str, WindowStock]:
        """The same for the articles that moved in the stretch, or became unknown in it."""
        return _stock_by_article(self.levels, self.lowest)


def _stock_by_article(
    levels: Mapping[str, OnHand], lowest: Mapping[str, OnHand]
) -> dict[str, WindowStock]:
    return {article: WindowStock(levels[article], least) for article, least in lowest.items()}


def _lesser(left: OnHand, right: OnHand) -> OnHand:
    return None if left is None or right is None else min(left, right)
