"""What is remembered of a partition's calls: the records of its state, by what is asked.

It is made of the records alone, whatever their order: so a memory that was restored answers as the
one that wrote them.
"""

from collections.abc import Iterator

from tally.alerts.delivery.records import TickTime
from tally.algebra.level import Level
from tally.algebra.parts import Value
from tally.algebra.shelf import is_counted
from tally.stock.calls import OPEN, KeptCall, LaneLevel, ReconciledDay, StockCall
from tally.stock.levels import (
    KEPT_MILLIS,
    UNCOUNTED_MILLIS,
    level_before,
    with_moved,
    without_old,
)


class CallMemory:
    """The newest record of each key; of calls that have ended their time, and what they brought."""

    def __init__(self) -> None:
        self.time = TickTime(n=0, at=0)
        self.reconciled = ReconciledDay(day="")
        self.order = 0
        # By lane what there is.
        self._levels: dict[str, Value] = {}
        self._bases: dict[str, LaneLevel] = {}
        self._counted: dict[str, int] = {}
        # By lane those that still have to come to an end, in their order.
        self._waiting: dict[str, dict[str, StockCall]] = {}
        # By movement, milliseconds since 1970 (UTC), in the order in which they ended.
        self._ended: dict[str, int] = {}

    def remember(self, kept: KeptCall) -> None:
        """Take a record in place of the one before it."""
        match kept:
            case StockCall():
                self._remember_call(kept)
            case LaneLevel():
                self._bases[kept.lane] = kept
                self._counted[kept.lane] = kept.counted_at
                self._levels[kept.lane] = [[kept.at, Level.count(kept.level_milli)]]
            case ReconciledDay():
                self.reconciled = kept
            case TickTime():
                self.time = kept

    def level(self, lane: str) -> Value:
        """What there is of the lane's article, as the part Level has it."""
        return self._levels.get(lane, [])

    def moved(self, lane: str, at: int, brought: int) -> Value:
        """What there is with one more movement, which happened at an instant (ms since 1970)."""
        base = self._bases.get(lane)
        # What comes a week late lies behind all of that week, but for what a count has already.
        if base is not None and brought & 1 and base.counted_at <= at < base.at:
            at = base.at
        return with_moved(self.level(lane), at, brought)

    def lanes(self) -> list[str]:
        """The articles of which anything has moved."""
        return [*self._levels]

    def heads(self) -> Iterator[StockCall]:
        """Of each lane the call that has to come to its end first."""
        for lane in self._waiting.values():
            yield next(iter(lane.values()))

    def waiting(self, lane: str, movement_id: str) -> StockCall | None:
        """A call that has not come to its end."""
        return self._waiting.get(lane, {}).get(movement_id)

    def outdated(self, before: int) -> list[str]:
        """Calls that ended before the instant (ms since 1970, UTC); they are forgotten."""
        found = [movement_id for movement_id, at in self._ended.items() if at < before]
        for movement_id in found:
            del self._ended[movement_id]
        return found

    def settled(self) -> list[LaneLevel]:
        """The levels of a week ago that have become known since; what is older is forgotten."""
        before = self.time.at - KEPT_MILLIS
        found = [self._settled(lane, before) for lane in self._levels]
        return [base for base in found if base is not None]

    def put_in_order(self) -> None:
        """Calls in the order in which they were taken, whatever was written last of them."""
        for lane, calls in self._waiting.items():
            inorder = sorted(calls.values(), key=lambda one: one.order)
            self._waiting[lane] = {one.movement_id: one for one in inorder}

    def _settled(self, lane: str, before: int) -> LaneLevel | None:
        value, known = self._levels[lane], self._bases.get(lane)
        old = [at for at, _ in value if at < before]
        # Of an article of which nothing has moved there is nothing to be written anew.
        if not old or (known is not None and old == [known.at]):
            return None
        level = level_before(value, before)
        if level is None:
            # As long as their calls are kept: a count that comes late is as right after a restart.
            self._levels[lane] = without_old(value, self.time.at - UNCOUNTED_MILLIS)
            return None
        self._levels[lane] = without_old(value, before)
        store_id, _, item_id = lane.partition("|")
        base = LaneLevel(
            store_id=store_id,
            item_id=item_id,
            at=before,
            level_milli=level,
            counted_at=self._counted[lane],
            order=self.order,
        )
        self._bases[lane] = base
        return base

    def _remember_call(self, call: StockCall) -> None:
        # Restored records come in the order in which they were last written.
        self.order = max(self.order, call.order)
        waiting = self._waiting.get(call.lane, {})
        if call.movement_id not in waiting and call.movement_id not in self._ended:
            self._move(call)
        if call.outcome in OPEN:
            self._waiting.setdefault(call.lane, waiting)[call.movement_id] = call
            return
        self._ended[call.movement_id] = call.ended_at or 0
        waiting.pop(call.movement_id, None)
        # Articles are many, and few of them have a call at a time.
        if not waiting:
            self._waiting.pop(call.lane, None)

    def _move(self, call: StockCall) -> None:
        base = self._bases.get(call.lane)
        is_in_it = base is not None and call.order <= base.order and call.millis < base.at
        if call.brought is None or is_in_it:
            return
        self._levels[call.lane] = self.moved(call.lane, call.millis, call.brought)
        if is_counted([[call.millis, call.brought]]):
            last = self._counted.get(call.lane, 0)
            self._counted[call.lane] = max(call.millis, last)
