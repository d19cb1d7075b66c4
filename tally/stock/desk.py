"""A partition's calls: which are needed, in which order, and their outcomes.

Each method returns the changed records. They are stored in one transaction with the positions of
the consumed records, and only then are the calls made that `begin()` returned.

    take(movement)    the article's new level, and the call that follows
    pass_time(tick)   the daily setting of levels, and the end of records kept long enough
    begin()           one more attempt of the first call of each lane, when it is due
    answered()        the outcome of an attempt
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
# The most calls of one process in flight at once.
MOST_AT_ONCE = 64
_TOO_LATE = "no answer in time"
_COUNTED_SINCE = "a later count has it already"
_WEEK_LATE = "it came more than 7 days late; count the article anew"
Kept = TypeVar("Kept", bound=KeptCall)


class BegunCalls(NamedTuple):
    """Records to store, and the calls to make once they are stored."""

    kept: list[KeptCall]
    asked: list[AskedCall]


class CallDesk:
    """One partition's calls, by the rules of a mode.

    `reconcile_after`: milliseconds since midnight (UTC) at which levels are set, in mode absolute.
    """

    def __init__(self, rules: CallRules, reconcile_after: int = 0) -> None:
        self.memory = CallMemory()
        self._rules = rules
        self._reconcile_after = reconcile_after
        # By movement, calls of mode at_most_once whose answer may still arrive.
        self._called_once: dict[str, StockCall] = {}

    def take(self, movement: StockMovement) -> list[KeptCall]:
        """Take a movement: the record of its call, with the new level. Raises BadInstant."""
        return [*self._remember([self._call(movement)])]

    def pass_time(self, tick: TickTime) -> list[CallChange]:
        """The records that a tick changes; a tick with nothing new changes nothing."""
        time = self.memory.time
        # Ticks are facts from several tickers: the larger number and the larger instant count.
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        newest = TickTime(n=n, at=at)
        if newest == time:
            return []
        changes: list[CallChange] = [*self._remember([newest]), *self._reconciliation()]
        # Once a day is enough, because looking through all records takes time.
        if newest.at // DAY != time.at // DAY:
            changes += self.memory.settled()
            # After the levels, because the calls that they include are no longer needed.
            changes += [DroppedRecord(key.encode()) for key in self.memory.outdated()]
        return changes

    def begin(self, under_way: Collection[AskedCall]) -> BegunCalls:
        """The due calls with one more attempt; a lane with a call in flight has none.

        A call that has run out of time ends instead.
        """
        now, busy = self.memory.time.at, {running.call.lane for running in under_way}
        begun = BegunCalls([], [])
        # Before the first tick the time is unknown, and with it the begin of a call.
        for call in [*self.memory.heads()] if now else ():
            if call.lane in busy or call.due_at > now:
                continue
            if self._is_overruled(call):
                begun.kept.extend(self._remember([ended(call, "overruled", now, _COUNTED_SINCE)]))
            elif self._rules.is_over(call, now):
                over = self._rules.given_up(call, now, call.cause or _TOO_LATE)
                begun.kept.extend(self._remember([over]))
            elif len(under_way) + len(begun.asked) < MOST_AT_ONCE:
                attempt = self._rules.asked(call, now)
                begun.kept.extend(self._remember([attempt.call]))
                begun.asked.append(attempt)
                # A call of at_most_once has ended already, but its answer may still arrive.
                if attempt.call.outcome not in OPEN:
                    self._called_once[call.movement_id] = attempt.call
        return begun

    def answered(self, asked: AskedCall, answer: CallAnswer) -> list[KeptCall]:
        """The records that an answer changes; an answer to an earlier attempt changes nothing."""
        call = asked.call
        known = self.memory.waiting(call.lane, call.movement_id)
        known = known or self._called_once.pop(call.movement_id, None)
        if known is None or known.attempts != call.attempts:
            return []
        after = self._rules.answered(asked, answer, self.memory.time.at)
        return self._remember([after])

    def restore(self, kept: Iterable[KeptCall]) -> None:
        """Replace the state with these records."""
        self.memory, self._called_once = CallMemory(), {}
        # Levels first, because they decide which movements they include.
        for record in sorted(kept, key=lambda record: not isinstance(record, LaneLevel)):
            self.memory.remember(record)
        self.memory.put_in_order()

    def _call(self, movement: StockMovement) -> StockCall:
        """The call for a movement, by the levels before and after it, None where unknown."""
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
        """Whether a waiting count was overruled by a later one, and was certainly not applied."""
        is_count = call.brought is not None and not call.brought & 1
        is_behind = call.millis < self.memory.counted_at(call.lane)
        return is_count and is_behind and not call.in_doubt

    def _reconciliation(self) -> list[KeptCall]:
        """Calls that set the changed levels, once a day, in mode absolute."""
        if self._rules.mode != "absolute":
            return []
        at = self.memory.time.at
        day = from_millis(at - self._reconcile_after).date().isoformat()
        last = self.memory.reconciled.day
        if day <= last:
            return []
        records: list[KeptCall] = [*self._remember([ReconciledDay(day=day)])]
        # On the very first day, all levels have just been sent.
        for lane in self.memory.changed_lanes() if last else ():
            records += self._remember(self._reset_calls(lane, day))
        return records

    def _reset_calls(self, lane: str, day: str) -> list[StockCall]:
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

    def _remember(self, records: Sequence[Kept]) -> list[Kept]:
        for record in records:
            self.memory.remember(record)
        return [*records]
