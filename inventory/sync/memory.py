"""The memory of a partition's calls: the records of its state, indexed for queries, and the levels
of its articles. It depends on the records alone, in any order.
"""

from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

from inventory.sync.calls import OPEN_OUTCOMES, LaneLevel, ReconciledDay, StockCall, StoredCall
from runtime.outbound.engine import OutboundMemory, TickTime
from tally.algebra.level import Level, has_count
from tally.time.instants import DAY_MILLIS

# An article's movements are kept apart for this long; one that arrives later than that is placed at
# the start of this time, just after the level that is kept there.
RETENTION_MILLIS = 7 * DAY_MILLIS
# How long the records are kept of movements that people have to compare by hand.
_UNSURE_RETENTION_MILLIS = 90 * DAY_MILLIS
# Instant (ms since 1970, UTC), whether it is a movement (at one instant the count comes first), and
# its effect as the part Level takes it.
_Event = tuple[int, bool, int]


class ArticleLevel:
    """The last count of an article and the movements after it, in order of time.

    The level is that of the part Level (tally/algebra/level.py), but with a running sum: a further
    movement costs the same, however many there are.

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


class _EndedCall(NamedTuple):
    """The facts of an ended call that decide when its record is forgotten.

    `at`: when the call ended; `millis`: when its movement happened; both ms since 1970 (UTC).
    """

    lane: str
    order: int
    millis: int
    at: int
    moves: bool
    is_sure: bool


class _NewestCall(NamedTuple):
    """The last call of an article: its order, and whether it sets the current level."""

    order: int
    sets_level: bool


class CallMemory(OutboundMemory[StockCall]):
    """The newest record of each key; for ended calls only their times and their effects."""

    def __init__(self) -> None:
        super().__init__()
        self.reconciled = ReconciledDay(day="")
        # The level of each lane.
        self._articles: dict[str, ArticleLevel] = {}
        self._bases: dict[str, LaneLevel] = {}
        self._count_instants: dict[str, int] = {}
        self._ended_calls: dict[str, _EndedCall] = {}
        self._newest: dict[str, _NewestCall] = {}
        # By lane, when a call ended of which an attempt may still be in flight.
        self._doubt_instants: dict[str, int] = {}

    def remember(self, record: StoredCall) -> None:
        """Store a record in place of the previous one of its key."""
        match record:
            case StockCall():
                self._remember_call(record)
            case LaneLevel():
                self._bases[record.lane] = record
                self._count_instants[record.lane] = record.counted_at
                self._article(record.lane).reset_to(record.at, record.level_milli)
            case ReconciledDay():
                self.reconciled = record
            case TickTime():
                self.time = record

    def level(self, lane: str) -> int | None:
        """The level of the lane's article, in thousandths; None before the first count."""
        return self._articles[lane].level if lane in self._articles else None

    def level_after(self, lane: str, at: int, brought: int) -> int | None:
        """The level with one more movement, which happened at an instant (ms since 1970, UTC)."""
        return self._article(lane).level_after(self._place(lane, at, brought), brought)

    def is_overruled(self, lane: str, at: int, brought: int) -> bool:
        """Whether an event changes nothing: a later count includes it, or it is too old a count."""
        base, place = self._bases.get(lane), self._place(lane, at, brought)
        # The movements since such a count are no longer kept apart.
        is_too_late = base is not None and place < base.at
        return self._article(lane).is_before_count(place, brought) or is_too_late

    def last_count_at(self, lane: str) -> int:
        """The instant of the article's last count, ms since 1970 (UTC); 0: never."""
        return self._count_instants.get(lane, 0)

    def lanes(self) -> list[str]:
        """The lanes of all articles with a movement."""
        return [*self._articles]

    def lanes_to_reconcile(self) -> list[str]:
        """Lanes whose level no reconciliation set, or an abandoned call may reach (for a week)."""
        since = self.time.at - RETENTION_MILLIS
        return [
            lane
            for lane, newest in self._newest.items()
            if not newest.sets_level or self._doubt_instants.get(lane, 0) > since
        ]

    def forget_ended(self) -> list[str]:
        """Forget the ended calls that no level needs any more, and return their keys."""
        found = [name for name, call in self._ended_calls.items() if self._is_over(call)]
        for movement_id in found:
            del self._ended_calls[movement_id]
        return found

    def compact_levels(self) -> list[LaneLevel]:
        """The new levels of a week ago; they replace all older movements."""
        before = self.time.at - RETENTION_MILLIS
        found = [self._compact_level(lane, before) for lane in self._articles]
        return [base for base in found if base is not None]

    def _article(self, lane: str) -> ArticleLevel:
        if lane not in self._articles:
            self._articles[lane] = ArticleLevel()
        return self._articles[lane]

    def _place(self, lane: str, at: int, brought: int) -> int:
        base = self._bases.get(lane)
        # A movement older than the base level is placed just after it, unless a count includes it.
        if base is not None and brought & 1 and base.counted_at <= at < base.at:
            return base.at
        return at

    def _is_over(self, ended: _EndedCall) -> bool:
        keep_millis = RETENTION_MILLIS if ended.is_sure else _UNSURE_RETENTION_MILLIS
        is_needed = ended.moves and not self._is_in_base(ended.lane, ended.order, ended.millis)
        return ended.at < self.time.at - keep_millis and not is_needed

    def _is_in_base(self, lane: str, order: int, millis: int) -> bool:
        base = self._bases.get(lane)
        return base is not None and order <= base.order and millis < base.at

    def _compact_level(self, lane: str, before: int) -> LaneLevel | None:
        article, current = self._articles[lane], self._bases.get(lane)
        old = article.instants_before(before)
        is_same = current is not None and current.level_milli is not None and old == [current.at]
        # The level of an article without new movements need not be written again.
        if not old or is_same:
            return None
        store_id, _, item_id = lane.partition("|")
        base = LaneLevel(
            store_id=store_id,
            item_id=item_id,
            at=before,
            level_milli=article.forget_before(before),
            counted_at=self.last_count_at(lane),
            order=self.order,
        )
        self._bases[lane] = base
        return base

    def _remember_call(self, call: StockCall) -> None:
        # Restored records come in the order in which they were last written.
        self.order = max(self.order, call.order)
        lane = call.lane
        is_new = call.key not in self.waiting
        if is_new and call.movement_id not in self._ended_calls:
            self._apply_movement(call)
        if lane not in self._newest or self._newest[lane].order <= call.order:
            holds = call.outcome in (*OPEN_OUTCOMES, "applied")
            self._newest[lane] = _NewestCall(call.order, holds and call.kind == "reconciliation")
        if call.outcome in OPEN_OUTCOMES:
            self.waiting.put(call)
            return
        is_second = call.outcome == "applied" and call.attempts > call.refusals + 1
        if call.outcome == "unknown" or is_second:
            before = self._doubt_instants.get(lane, 0)
            self._doubt_instants[lane] = max(call.ended_at or 0, before)
        self._ended_calls[call.movement_id] = _EndedCall(
            lane,
            call.order,
            call.millis,
            call.ended_at or 0,
            call.brought is not None,
            call.outcome in ("applied", "overruled"),
        )
        self.waiting.remove(call.key)

    def _apply_movement(self, call: StockCall) -> None:
        lane = call.lane
        if call.brought is None or self._is_in_base(lane, call.order, call.millis):
            return
        place = self._place(lane, call.millis, call.brought)
        self._article(lane).add(place, call.brought)
        if has_count([[call.millis, call.brought]]):
            self._count_instants[lane] = max(call.millis, self.last_count_at(lane))
