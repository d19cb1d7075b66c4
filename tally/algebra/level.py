"""The level at an instant: the part for stock on a shelf and for people in a shop; and the stock of
articles, window by window, whose events are values of that part, of any families."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate
from typing import ClassVar, NamedTuple

from tally.algebra.parts import Numbers, PairsPart, Value


class Level(PairsPart):
    """The level at the end of a stretch: the last count, and the movements after it.

    An event brings a count or a movement (encode_…). A value is the list of [instant, event's
    number] from the last count on, ascending; events before a count are discarded, for the count
    includes them. At one instant the count comes first.

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
        return int(sum(number >> 1 for _, number in value)) if has_count(value) else None

    @staticmethod
    def _drop_before_last_count(events: Sequence[Sequence[int]]) -> list[list[int]]:
        counts = (place for place, event in enumerate(events) if not _is_movement(event))
        return [[*event] for event in events[max(counts, default=0) :]]


def _is_movement(event: Sequence[int]) -> bool:
    return bool(event[1] & 1)


def _time_order(event: Sequence[int]) -> tuple[int, bool, int]:
    return event[0], _is_movement(event), event[1]


# The stock of an article; None if unknown.
OnHand = int | None


class WindowStock(NamedTuple):
    """The stock after the events of a window, and the lowest stock in it."""

    level: OnHand
    lowest: OnHand


def has_count(events: Value) -> bool:
    """Whether a count is among the events: then it is the first, for it includes all before it.

    >>> has_count([[7, Level.encode_count(0)]]), has_count([[7, Level.encode_movement(2)]])
    (True, False)
    """
    return bool(events) and not _is_movement(events[0])


def apply_events(before: OnHand, events: Value) -> WindowStock:
    """The stock after the events of a window that began with `before`, and the lowest in it.

    In a window with a count the lowest is that from the count on. Numbers below 0 are kept.

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
        return self._stock_by_article(self.lowest_levels())

    def stock_changes(self) -> dict[str, WindowStock]:
        """The same for the articles that moved in the stretch, or became unknown in it."""
        return self._stock_by_article(self.lowest)

    def _stock_by_article(self, lowest: Mapping[str, OnHand]) -> dict[str, WindowStock]:
        levels = self.levels
        return {name: WindowStock(levels[name], least) for name, least in lowest.items()}


def _lesser(left: OnHand, right: OnHand) -> OnHand:
    return None if left is None or right is None else min(left, right)
