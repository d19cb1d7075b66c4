"""What is remembered of a partition's calls: the records of its state, by what is asked.

It is made of the records alone, whatever their order: so a memory that was restored answers as the
one that wrote them.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from tally.alerts.delivery.records import TickTime
from tally.algebra.shelf import is_counted
from tally.stock.calls import OPEN, KeptCall, LaneLevel, ReconciledDay, StockCall
from tally.stock.levels import KEPT_MILLIS, ArticleLevel

# Of movements that somebody has to compare by hand the records are kept for so long.
UNSURE_MILLIS = 90 * 86_400_000


class _EndedCall(NamedTuple):
    """Of a call that has ended what decides when its record is forgotten.

    `at`: when it ended, `millis`: when its movement happened, ms since 1970 (UTC).
    """

    lane: str
    order: int
    millis: int
    at: int
    moves: bool
    is_sure: bool


class _NewestCall(NamedTuple):
    """Of an article the last call: its place, and whether it sets the level that there is."""

    order: int
    sets_level: bool


class CallMemory:
    """The newest record of each key; of calls that have ended their time, and what they brought."""

    def __init__(self) -> None:
        self.time = TickTime(n=0, at=0)
        self.reconciled = ReconciledDay(day="")
        self.order = 0
        # By lane what there is.
        self._articles: dict[str, ArticleLevel] = {}
        self._bases: dict[str, LaneLevel] = {}
        self._counted: dict[str, int] = {}
        # By lane those that still have to come to an end, in their order. Of a plain dict the first
        # is found the later the more were taken away before it.
        self._waiting: dict[str, OrderedDict[str, StockCall]] = {}
        self._ended: dict[str, _EndedCall] = {}
        self._newest: dict[str, _NewestCall] = {}
        # By lane when a call ended of which an attempt may still be on its way.
        self._doubted: dict[str, int] = {}

    def remember(self, kept: KeptCall) -> None:
        """Take a record in place of the one before it."""
        match kept:
            case StockCall():
                self._remember_call(kept)
            case LaneLevel():
                self._bases[kept.lane] = kept
                self._counted[kept.lane] = kept.counted_at
                self._article(kept.lane).begin_at(kept.at, kept.level_milli)
            case ReconciledDay():
                self.reconciled = kept
            case TickTime():
                self.time = kept

    def level(self, lane: str) -> int | None:
        """What there is of the lane's article; None while nobody has counted."""
        return self._articles[lane].level if lane in self._articles else None

    def level_after(self, lane: str, at: int, brought: int) -> int | None:
        """What there is with one more movement, which happened at an instant (ms since 1970)."""
        return self._article(lane).after(self._place(lane, at, brought), brought)

    def is_overruled(self, lane: str, at: int, brought: int) -> bool:
        """Whether it changes nothing: a later count has it, or it is a count of too long ago."""
        base, place = self._bases.get(lane), self._place(lane, at, brought)
        # What moved since such a count is not told apart any more.
        is_too_late = base is not None and place < base.at
        return self._article(lane).is_behind_count(place, brought) or is_too_late

    def counted_at(self, lane: str) -> int:
        """When the article was counted last, ms since 1970 (UTC); 0: never."""
        return self._counted.get(lane, 0)

    def lanes(self) -> list[str]:
        """The articles of which anything has moved."""
        return [*self._articles]

    def changed_lanes(self) -> list[str]:
        """The articles whose level has not been set as it is now, by a reconciliation.

        Of one that a call may still reach which nobody waits for, for a week.
        """
        since = self.time.at - KEPT_MILLIS
        return [
            lane
            for lane, newest in self._newest.items()
            if not newest.sets_level or self._doubted.get(lane, 0) > since
        ]

    def heads(self) -> Iterator[StockCall]:
        """Of each lane the call that has to come to its end first."""
        for lane in self._waiting.values():
            yield next(iter(lane.values()))

    def waiting(self, lane: str, movement_id: str) -> StockCall | None:
        """A call that has not come to its end."""
        calls = self._waiting.get(lane)
        return None if calls is None else calls.get(movement_id)

    def outdated(self) -> list[str]:
        """Calls that have ended, and that no level needs any more; they are forgotten."""
        found = [movement_id for movement_id, one in self._ended.items() if self._is_over(one)]
        for movement_id in found:
            del self._ended[movement_id]
        return found

    def settled(self) -> list[LaneLevel]:
        """The levels of a week ago that have become known since; what is older is forgotten."""
        before = self.time.at - KEPT_MILLIS
        found = [self._settled(lane, before) for lane in self._articles]
        return [base for base in found if base is not None]

    def put_in_order(self) -> None:
        """Calls in the order in which they were taken, whatever was written last of them."""
        for lane, calls in self._waiting.items():
            inorder = sorted(calls.values(), key=lambda one: one.order)
            self._waiting[lane] = OrderedDict((one.movement_id, one) for one in inorder)

    def _article(self, lane: str) -> ArticleLevel:
        if lane not in self._articles:
            self._articles[lane] = ArticleLevel()
        return self._articles[lane]

    def _place(self, lane: str, at: int, brought: int) -> int:
        base = self._bases.get(lane)
        # What comes a week late lies behind all of that week, but for what a count has already.
        if base is not None and brought & 1 and base.counted_at <= at < base.at:
            return base.at
        return at

    def _is_over(self, ended: _EndedCall) -> bool:
        kept = KEPT_MILLIS if ended.is_sure else UNSURE_MILLIS
        is_needed = ended.moves and not self._is_in_base(ended.lane, ended.order, ended.millis)
        return ended.at < self.time.at - kept and not is_needed

    def _is_in_base(self, lane: str, order: int, millis: int) -> bool:
        base = self._bases.get(lane)
        return base is not None and order <= base.order and millis < base.at

    def _settled(self, lane: str, before: int) -> LaneLevel | None:
        article, known = self._articles[lane], self._bases.get(lane)
        old = article.instants_before(before)
        is_same = known is not None and known.level_milli is not None and old == [known.at]
        # Of an article of which nothing has moved there is nothing to be written anew.
        if not old or is_same:
            return None
        store_id, _, item_id = lane.partition("|")
        base = LaneLevel(
            store_id=store_id,
            item_id=item_id,
            at=before,
            level_milli=article.forget_before(before),
            counted_at=self.counted_at(lane),
            order=self.order,
        )
        self._bases[lane] = base
        return base

    def _remember_call(self, call: StockCall) -> None:
        # Restored records come in the order in which they were last written.
        self.order = max(self.order, call.order)
        lane = call.lane
        is_new = self.waiting(lane, call.movement_id) is None
        if is_new and call.movement_id not in self._ended:
            self._move(call)
        if lane not in self._newest or self._newest[lane].order <= call.order:
            is_told = call.kind == "reconciliation" and call.outcome in (*OPEN, "applied")
            self._newest[lane] = _NewestCall(call.order, is_told)
        if call.outcome in OPEN:
            self._waiting.setdefault(lane, OrderedDict())[call.movement_id] = call
            return
        is_second = call.outcome == "applied" and call.attempts > call.refusals + 1
        if call.outcome == "unknown" or is_second:
            before = self._doubted.get(lane, 0)
            self._doubted[lane] = max(call.ended_at or 0, before)
        self._ended[call.movement_id] = _EndedCall(
            lane,
            call.order,
            call.millis,
            call.ended_at or 0,
            call.brought is not None,
            call.outcome in ("applied", "overruled"),
        )
        waiting = self._waiting.get(lane, OrderedDict())
        waiting.pop(call.movement_id, None)
        # Articles are many, and few of them have a call at a time.
        if not waiting:
            self._waiting.pop(lane, None)

    def _move(self, call: StockCall) -> None:
        lane = call.lane
        is_known = self._is_in_base(lane, call.order, call.millis)
        if call.brought is None or is_known:
            return
        place = self._place(lane, call.millis, call.brought)
        self._article(lane).add(place, call.brought)
        if is_counted([[call.millis, call.brought]]):
            self._counted[lane] = max(call.millis, self.counted_at(lane))
