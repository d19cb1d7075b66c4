"""A partition's calls: which are needed, in which order, and their outcomes.

Each method returns the changed records. They are stored in one transaction with the positions of
the consumed records, and only then are the calls made that `begin_attempts()` returned.

    take(movement)    the article's new level, and the call that follows
    pass_time(tick)   the daily setting of levels, and the end of records kept long enough
    begin()           one more attempt of the first call of each lane, when it is due
    answered()        the outcome of an attempt
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from inventory.movements.movement import StockMovement, level_effect
from inventory.sync.calls import CallChange, LaneLevel, ReconciledDay, StockCall, StoredCall
from inventory.sync.memory import CallMemory
from inventory.sync.modes import CallAnswer, CallAttempt, CallRules, end_call
from runtime.outbound.records import DroppedRecord, TickTime
from tally.time.instants import DAY_MILLIS, format_utc, from_millis

# The most calls of one process in flight at once.
MAX_AT_ONCE = 64
_TOO_LATE = "no answer in time"
_COUNTED_SINCE = "a later count has it already"
_WEEK_LATE = "it came more than 7 days late; count the article again"
Record = TypeVar("Record", bound=StoredCall)


class StartedCalls(NamedTuple):
    """Records to store, and the calls to make once they are stored."""

    records: list[StoredCall]
    attempts: list[CallAttempt]


class StockSyncEngine:
    """One partition's calls, by the rules of a mode.

    `reconcile_after`: milliseconds since midnight (UTC) at which levels are set, in mode absolute.
    """

    def __init__(self, rules: CallRules, reconcile_after: int = 0) -> None:
        self.memory = CallMemory()
        self._rules = rules
        self._reconcile_after = reconcile_after

    def process_movement(self, movement: StockMovement) -> list[StoredCall]:
        """Take a movement: the record of its call, with the new level. Raises BadInstant."""
        return [*self._remember([self._build_call(movement)])]

    def advance_time(self, tick: TickTime) -> list[CallChange]:
        """The records that a tick changes; a tick with nothing new changes nothing."""
        time = self.memory.time
        # Ticks are facts from several tickers: the larger number and the larger instant count.
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        newest = TickTime(n=n, at=at)
        if newest == time:
            return []
        changes: list[CallChange] = [*self._remember([newest]), *self._reconcile()]
        # Once a day is enough, because looking through all records takes time.
        if newest.at // DAY_MILLIS != time.at // DAY_MILLIS:
            changes += self.memory.settle_levels()
            # After the levels, because the calls that they include are no longer needed.
            changes += [DroppedRecord(key.encode()) for key in self.memory.forget_ended()]
        return changes

    def begin_attempts(self, under_way: Collection[CallAttempt]) -> StartedCalls:
        """The due calls with one more attempt; a lane with a call in flight has none.

        A call that has run out of time ends instead.
        """
        now, busy = self.memory.time.at, {running.call.lane for running in under_way}
        begun = StartedCalls([], [])
        # Before the first tick the time is unknown, and with it the begin of a call.
        for call in [*self.memory.lane_heads()] if now else ():
            if call.lane in busy or call.due_at > now:
                continue
            if self._is_overruled(call):
                begun.records.extend(
                    self._remember([end_call(call, "overruled", now, _COUNTED_SINCE)])
                )
            elif self._rules.is_over(call, now):
                over = self._rules.give_up(call, now, call.cause or _TOO_LATE)
                begun.records.extend(self._remember([over]))
            elif len(under_way) + len(begun.attempts) < MAX_AT_ONCE:
                attempt = self._rules.begin_attempt(call, now)
                begun.records.extend(self._remember([attempt.call]))
                begun.attempts.append(attempt)
        return begun

    def record_answer(self, asked: CallAttempt, answer: CallAnswer) -> list[StoredCall]:
        """The records that an answer changes; an answer to an earlier attempt changes nothing."""
        call = asked.call
        known = self.memory.find_open_call(call.lane, call.movement_id)
        if known is None or known.attempts != call.attempts:
            return []
        after = self._rules.apply_answer(asked, answer, self.memory.time.at)
        return self._remember([after])

    def restore(self, kept: Iterable[StoredCall]) -> None:
        """Replace the state with these records."""
        self.memory = CallMemory()
        # Levels first, because they decide which movements they include.
        for record in sorted(kept, key=lambda record: not isinstance(record, LaneLevel)):
            self.memory.remember(record)
        self.memory.sort_open_calls()

    def _build_call(self, movement: StockMovement) -> StockCall:
        """The call for a movement, by the levels before and after it, None where unknown."""
        lane, at, brought = movement.lane, movement.millis, level_effect(movement)
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
            is_late = at >= self.memory.last_count_at(lane)
            return end_call(call, "overruled", now, _WEEK_LATE if is_late else _COUNTED_SINCE)
        if is_level and after is None:
            return end_call(call, "overruled", now, "never counted")
        if not is_level and not delta:
            return end_call(call, "overruled", now, _COUNTED_SINCE)
        return call

    def _is_overruled(self, call: StockCall) -> bool:
        """Whether a waiting count was overruled by a later one, and was certainly not applied."""
        is_count = call.brought is not None and not call.brought & 1
        is_behind = call.millis < self.memory.last_count_at(call.lane)
        return is_count and is_behind and not call.in_doubt

    def _reconcile(self) -> list[StoredCall]:
        """Calls that set the changed levels, once a day, in mode absolute."""
        if self._rules.mode != "absolute":
            return []
        at = self.memory.time.at
        day = from_millis(at - self._reconcile_after).date().isoformat()
        last = self.memory.reconciled.day
        if day <= last:
            return []
        records: list[StoredCall] = [*self._remember([ReconciledDay(day=day)])]
        # On the very first day, all levels have just been sent.
        for lane in self.memory.lanes_to_reconcile() if last else ():
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
                happened_at=format_utc(from_millis(self.memory.time.at)),
                brought=None,
                delta_milli=None,
                level_milli=known,
                order=self.memory.order + 1,
                step=self._rules.first_step,
                due_at=self.memory.time.at,
            )
        ]

    def _remember(self, records: Sequence[Record]) -> list[Record]:
        for record in records:
            self.memory.remember(record)
        return [*records]
