"""What there is of an article by its movements, whichever of them came first.

It is what the part Level makes of them (tally/algebra/level.py), with a running sum: one movement
more costs the same, however many there are.
"""

from bisect import bisect_left, bisect_right, insort

from tally.algebra.level import Level

# So long an article's movements are told apart; what comes later than that lies behind all of them.
KEPT_MILLIS = 7 * 86_400_000
# Instant (ms since 1970, UTC), whether it is a movement (of one instant the count comes first), and
# what it brings as the part Level takes it.
_Event = tuple[int, bool, int]


class ArticleLevel:
    """The last count of an article and the movements behind it, in order of time.

    >>> article = ArticleLevel()
    >>> article.add(3, Level.moved(-1000)), article.level
    (None, None)
    >>> article.after(1, Level.count(5000))
    4000
    """

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._sum = 0

    @property
    def level(self) -> int | None:
        """What there is; None while nobody has counted."""
        return self._sum if self._is_counted else None

    def is_behind_count(self, at: int, brought: int) -> bool:
        """Whether a later count has it already; `at`: when it happened, ms since 1970 (UTC)."""
        return self._is_counted and _event(at, brought) < self._events[0]

    def after(self, at: int, brought: int) -> int | None:
        """What there is with one more event, which is not kept."""
        if self.is_behind_count(at, brought):
            return self._sum
        if brought & 1:
            return self._sum + (brought >> 1) if self._is_counted else None
        return self._sum - self._sum_before(_event(at, brought)) + (brought >> 1)

    def add(self, at: int, brought: int) -> None:
        """Take one more event."""
        if self.is_behind_count(at, brought):
            return
        event = _event(at, brought)
        if not brought & 1:
            # A count says all before it: each event is forgotten once, so this is linear too.
            self._sum -= self._sum_before(event)
            del self._events[: bisect_right(self._events, event)]
        insort(self._events, event)
        self._sum += brought >> 1

    def begin_at(self, at: int, level: int | None) -> None:
        """Begin anew with what there was at an instant; None: nobody had counted by then."""
        self._events, self._sum = [], 0
        if level is not None:
            # As if it had been counted at that very instant: what happens then comes behind it.
            self.add(at, Level.count(level))

    def instants_before(self, at: int) -> list[int]:
        """When what lies before an instant happened, ms since 1970 (UTC), ascending."""
        return [event[0] for event in self._events[: self._place(at)]]

    def forget_before(self, at: int) -> int | None:
        """What there was just before an instant; its events are kept no longer, the level is."""
        place = self._place(at)
        before = sum(event[2] >> 1 for event in self._events[:place])
        level = before if place and self._is_counted else None
        del self._events[:place]
        if level is None:
            self._sum -= before
        else:
            self._events.insert(0, _event(at, Level.count(level)))
        return level

    @property
    def _is_counted(self) -> bool:
        return bool(self._events) and not self._events[0][1]

    def _place(self, at: int) -> int:
        return bisect_left(self._events, (at, False), key=lambda event: event[:2])

    def _sum_before(self, event: _Event) -> int:
        place = bisect_right(self._events, event)
        return sum(one[2] >> 1 for one in self._events[:place])


def _event(at: int, brought: int) -> _Event:
    return at, bool(brought & 1), brought
