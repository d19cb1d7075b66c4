"""A partition's calls: what is called for, in which order, and what came of it.

Each method gives the records that have changed. They are stored in one transaction with the
position of what was taken, and only then is anything called: `begin()` says what.

    take(movement)    what there is of its article now, and the call that follows
    pass_time(tick)   levels that are set once a day, ends of what was kept long enough
    begin()           one more attempt of the first call of each lane, when its turn has come
    answered()        what came of an attempt
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from tally.alerts.delivery.records import DroppedRecord, TickTime
from tally.instants import from_millis, instant_text
from tally.stock.calls import OPEN, CallChange, KeptCall, LaneLevel, ReconciledDay, StockCall
from tally.stock.memory import CallMemory
from tally.stock.modes import AskedCall, CallAnswer, CallRules, ended
from tally.stock.movement import StockMovement, brought_by

DAY = 86_400_000
# Calls of one process that are under way at once.
MOST_AT_ONCE = 64
_TOO_LATE = "no answer in time"
_COUNTED_SINCE = "a later count has it already"
_WEEK_LATE = "it came more than 7 days late; count the article anew"
Kept = TypeVar("Kept", bound=KeptCall)


class BegunCalls(NamedTuple):
    """Records to store, and what to ask once they are."""

    kept: list[KeptCall]
    asked: list[AskedCall]


class CallDesk:
    """One partition's calls, by the rules of a mode.

    `reconcile_after`: milliseconds since midnight (UTC) at which levels are set, if they are told.
    """

    def __init__(self, rules: CallRules, reconcile_after: int = 0) -> None:
        self.memory = CallMemory()
        self._rules = rules
        self._reconcile_after = reconcile_after
        # What is called for at most once and may still be answered, by movement.
        self._called_once: dict[str, StockCall] = {}

    def take(self, movement: StockMovement) -> list[KeptCall]:
        """What there is of the article now, and the call. Raises BadInstant."""
        return [*self._keep([self._call(movement)])]

    def pass_time(self, tick: TickTime) -> list[CallChange]:
        """What a tick brings about; one that says nothing new changes nothing."""
        time = self.memory.time
        # Ticks are facts, and of several tickers: of number and instant the larger counts.
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        newest = TickTime(n=n, at=at)
        if newest == time:
            return []
        kept: list[CallChange] = [*self._keep([newest]), *self._reconciliation()]
        # Once a day is enough: to look through everything takes its time.
        if newest.at // DAY != time.at // DAY:
            kept += self.memory.settled()
            # Behind the levels: what they have in them is needed no more.
            kept += [DroppedRecord(one.encode()) for one in self.memory.outdated()]
        return kept

    def begin(self, under_way: Collection[AskedCall]) -> BegunCalls:
        """The calls whose turn it is, with one more attempt; none of a lane that has one under way.

        One that has had its time comes to its end instead.
        """
        now, busy = self.memory.time.at, {one.call.lane for one in under_way}
        begun = BegunCalls([], [])
        # Before any tick nobody knows since when a call is under way.
        for call in [*self.memory.heads()] if now else ():
            if call.lane in busy or call.due_at > now:
                continue
            if self._is_overruled(call):
                begun.kept.extend(self._keep([ended(call, "overruled", now, _COUNTED_SINCE)]))
            elif self._rules.is_over(call, now):
                over = self._rules.given_up(call, now, call.cause or _TOO_LATE)
                begun.kept.extend(self._keep([over]))
            elif len(under_way) + len(begun.asked) < MOST_AT_ONCE:
                asked = self._rules.asked(call, now)
                begun.kept.extend(self._keep([asked.call]))
                begun.asked.append(asked)
                # What is called for at most once waits no more: its answer may still come.
                if asked.call.outcome not in OPEN:
                    self._called_once[call.movement_id] = asked.call
        return begun

    def answered(self, asked: AskedCall, answer: CallAnswer) -> list[KeptCall]:
        """What the answer changes; an answer to an earlier attempt changes nothing."""
        call = asked.call
        known = self.memory.waiting(call.lane, call.movement_id)
        known = known or self._called_once.pop(call.movement_id, None)
        if known is None or known.attempts != call.attempts:
            return []
        after = self._rules.answered(asked, answer, self.memory.time.at)
        return self._keep([after])

    def restore(self, kept: Iterable[KeptCall]) -> None:
        """Begin anew with these records."""
        self.memory, self._called_once = CallMemory(), {}
        # Levels first: by them it is known which movements are in them.
        for one in sorted(kept, key=lambda one: not isinstance(one, LaneLevel)):
            self.memory.remember(one)
        self.memory.put_in_order()

    def _call(self, movement: StockMovement) -> StockCall:
        """What is told of a movement between two levels, None where nobody knows."""
        lane, at, brought = movement.lane, movement.millis, brought_by(movement)
        before, after = self.memory.level(lane), self.memory.level_after(lane, at, brought)
        is_overruled = self.memory.is_overruled(lane, at, brought)
        delta = movement.delta_milli if before is None else (after or 0) - before
        is_count = movement.counted_milli is not None
        is_level = is_count or self._rules.mode == "absolute"
        call = StockCall(
            movement_id=movement.movement_id,
            store_id=movement.store_id,
            item_id=movement.item_id,
            kind=movement.kind,
            happened_at=movement.happened_at,
            brought=None if is_overruled else brought,
            delta_milli=None if is_level else delta,
            level_milli=after,
            order=self.memory.order + 1,
            step=self._rules.first_step,
            due_at=self.memory.time.at,
        )
        now = self.memory.time.at
        if is_count and is_overruled:
            is_late = at >= self.memory.counted_at(lane)
            return ended(call, "overruled", now, _WEEK_LATE if is_late else _COUNTED_SINCE)
        if is_level and after is None:
            return ended(call, "overruled", now, "nobody has counted")
        if not is_level and not delta:
            return ended(call, "overruled", now, _COUNTED_SINCE)
        return call

    def _is_overruled(self, call: StockCall) -> bool:
        """Whether a count waits that a later one has overruled, and certainly was not applied."""
        is_count = call.brought is not None and not call.brought & 1
        is_behind = call.millis < self.memory.counted_at(call.lane)
        return is_count and is_behind and not call.in_doubt

    def _reconciliation(self) -> list[KeptCall]:
        """The levels that have changed, once a day, where levels are what is told."""
        if self._rules.mode != "absolute":
            return []
        at = self.memory.time.at
        day = from_millis(at - self._reconcile_after).date().isoformat()
        last = self.memory.reconciled.day
        if day <= last:
            return []
        kept: list[KeptCall] = [*self._keep([ReconciledDay(day=day)])]
        # On the first day of all everything has just been told.
        for lane in self.memory.changed_lanes() if last else ():
            kept += self._keep(self._set_anew(lane, day))
        return kept

    def _set_anew(self, lane: str, day: str) -> list[StockCall]:
        known = self.memory.level(lane)
        if known is None:
            return []
        store_id, _, item_id = lane.partition("|")
        return [
            StockCall(
                movement_id=f"reconciliation:{day}|{lane}",
                store_id=store_id,
                item_id=item_id,
                kind="reconciliation",
                happened_at=instant_text(from_millis(self.memory.time.at)),
                brought=None,
                delta_milli=None,
                level_milli=known,
                order=self.memory.order + 1,
                step=self._rules.first_step,
                due_at=self.memory.time.at,
            )
        ]

    def _keep(self, kept: Sequence[Kept]) -> list[Kept]:
        for one in kept:
            self.memory.remember(one)
        return [*kept]
