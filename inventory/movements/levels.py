"""The stock level of an article by its movements, in any order of arrival.

The result is that of the part Level (tally/algebra/level.py), but with a running sum: a further
movement costs the same, however many there are.
"""

from bisect import bisect_left, bisect_right, insort

from tally.algebra.level import Level
from tally.time.instants import DAY_MILLIS

# An article's movements are kept apart for this long; one that arrives later than that is placed at
# the start of this time, just after the level that is kept there.
RETENTION_MILLIS = 7 * DAY_MILLIS
# Instant (ms since 1970, UTC), whether it is a movement (at one instant the count comes first), and
# its effect as the part Level takes it.
_Event = tuple[int, bool, int]


class ArticleLevel:
    """The last count of an article and the movements after it, in order of time.

    >>> article = ArticleLevel()
    >>> article.add(3, Level.encode_movement(-1000)), article.level
    (None, None)
    >>> article.level_after(1, Level.encode_count(5000))
    4000
    """

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._sum = 0

    @property
    def level(self) -> int | None:
        """The current level in thousandths; None before the first count."""
        return self._sum if self._is_counted else None

    def is_before_count(self, at: int, brought: int) -> bool:
        """Whether a later count includes the event; `at`: its instant, ms since 1970 (UTC)."""
        return self._is_counted and _event(at, brought) < self._events[0]

    def level_after(self, at: int, brought: int) -> int | None:
        """The level in thousandths with one more event, which is not kept."""
        if self.is_before_count(at, brought):
            return self._sum
        if brought & 1:
            return self._sum + (brought >> 1) if self._is_counted else None
        return self._sum - self._sum_before(_event(at, brought)) + (brought >> 1)

    def add(self, at: int, brought: int) -> None:
        """Add one more event."""
        if self.is_before_count(at, brought):
            return
        event = _event(at, brought)
        if not brought & 1:
            # A count replaces all before it. Each event is removed once, so the total is linear.
            self._sum -= self._sum_before(event)
            del self._events[: bisect_right(self._events, event)]
        insort(self._events, event)
        self._sum += brought >> 1

    def reset_to(self, at: int, level: int | None) -> None:
        """Reset to the level at an instant; None: there was no count by then."""
        self._events, self._sum = [], 0
        if level is not None:
            # As if it had been counted at that instant: movements of the same instant come after.
            self.add(at, Level.encode_count(level))

    def instants_before(self, at: int) -> list[int]:
        """The instants of the events before an instant, ms since 1970 (UTC), ascending."""
        return [event[0] for event in self._events[: self._place(at)]]

    def forget_before(self, at: int) -> int | None:
        """The level just before an instant; the level replaces the events before it."""
        place = self._place(at)
        before = sum(event[2] >> 1 for event in self._events[:place])
        level = before if place and self._is_counted else None
        del self._events[:place]
        if level is None:
            self._sum -= before
        else:
            self._events.insert(0, _event(at, Level.encode_count(level)))
        return level

    @property
    def _is_counted(self) -> bool:
        return bool(self._events) and not self._events[0][1]

    def _place(self, at: int) -> int:
        return bisect_left(self._events, (at, False), key=lambda event: event[:2])

    def _sum_before(self, event: _Event) -> int:
        place = bisect_right(self._events, event)
        return sum(known[2] >> 1 for known in self._events[:place])


def _event(at: int, brought: int) -> _Event:
    return at, bool(brought & 1), brought
