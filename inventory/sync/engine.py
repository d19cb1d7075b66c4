"""The movements of a partition on their way to a system that keeps stock too, and the step that
turns movements and ticks into calls and their outcomes."""

from collections.abc import Callable, Collection, Iterable, Sequence

from inventory.movements.movement import StockMovement, decode_movement, level_effect
from inventory.sync.calls import (
    CODEC,
    CallAnswer,
    CallAttempt,
    CallChange,
    CallRules,
    LaneLevel,
    ReconciledDay,
    StockCall,
    StoredCall,
    end_call,
)
from inventory.sync.memory import CallMemory
from runtime.outbound.engine import DroppedRecord, OutboundEngine, TickTime
from runtime.outbound.step import OutboundStep, PendingCalls
from runtime.processor.step import Input, Output
from tally.alerts.tick import Tick
from tally.time.instants import format_utc, from_millis

# The most calls of one process in flight at once.
MAX_AT_ONCE = 64
_TOO_LATE = "no answer in time"
_COUNTED_SINCE = "a later count has it already"
_WEEK_LATE = "it came more than 7 days late; count the article again"


class StockSyncEngine(OutboundEngine[CallMemory, StockCall, StoredCall, CallAttempt, CallAnswer]):
    """One partition's calls; `reconcile_after`: ms since midnight (UTC), for mode absolute."""

    def __init__(self, rules: CallRules, reconcile_after: int = 0) -> None:
        super().__init__(CallMemory())
        self._rules = rules
        self._reconcile_after = reconcile_after

    def process_movement(self, movement: StockMovement) -> list[StoredCall]:
        """Take a movement: the record of its call, with the new level. Raises BadInstant."""
        return self.memory.remember_all([self._build_call(movement)])

    def restore(self, records: Iterable[StoredCall]) -> None:
        """Replace the state with these records."""
        # Levels first, because they decide which movements they include.
        super().restore(sorted(records, key=lambda record: not isinstance(record, LaneLevel)))

    def _drop_outdated(self) -> list[CallChange]:
        levels = self.memory.compact_levels()
        # After the levels, because the calls that they include are no longer needed.
        ended = self.memory.forget_ended()
        return [*levels, *(DroppedRecord(key.encode()) for key in ended)]

    def _own_room(self, under_way: Collection[CallAttempt]) -> Callable[[StockCall], bool]:
        places = iter(range(MAX_AT_ONCE - len(under_way)))
        return lambda _call: next(places, None) is not None

    def _end_turn(self, call: StockCall) -> list[StoredCall] | None:
        now = self.memory.time.at
        if self._is_overruled(call):
            return [end_call(call, "overruled", now, _COUNTED_SINCE)]
        if self._rules.is_over(call, now):
            return [self._rules.give_up(call, now, call.cause or _TOO_LATE)]
        return None

    def _begin_attempt(self, call: StockCall) -> CallAttempt:
        return self._rules.begin_attempt(call, self.memory.time.at)

    def _get_message(self, attempt: CallAttempt) -> StockCall:
        return attempt.call

    def _find_open(self, called: StockCall) -> StockCall | None:
        return self.memory.waiting.get(called.key)

    def _apply_answer(self, attempt: CallAttempt, answer: CallAnswer) -> list[StoredCall]:
        return [self._rules.apply_answer(attempt, answer, self.memory.time.at)]

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

    def _pass_time(self, _before: int) -> list[StoredCall]:
        """Calls that set the changed levels, once a day, in mode absolute."""
        if self._rules.mode != "absolute":
            return []
        at = self.memory.time.at
        day = from_millis(at - self._reconcile_after).date().isoformat()
        last = self.memory.reconciled.day
        if day <= last:
            return []
        records: list[StoredCall] = [*self.memory.remember_all([ReconciledDay(day=day)])]
        # On the very first day, all levels have just been sent.
        for lane in self.memory.lanes_to_reconcile() if last else ():
            records += self.memory.remember_all(self._reset_calls(lane, day))
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


MOVEMENTS, TICKS, CALLS = "stock-movements", "ticks", "stock-calls"


class StockAdapter(OutboundStep[StockSyncEngine, CallAttempt, CallAnswer]):
    """The calls of the partitions, for stores that it `covers`; `prefix`: for topics of tests."""

    state_topic = CALLS

    def __init__(
        self,
        calls: PendingCalls[CallAttempt, CallAnswer],
        make_engine: Callable[[], StockSyncEngine],
        covers: Callable[[str], bool] = lambda _store_id: True,
        prefix: str = "",
    ) -> None:
        super().__init__(calls, CODEC)
        self.state_topic = prefix + CALLS
        self.topics = (prefix + MOVEMENTS, prefix + TICKS)
        self._build_engine, self._covers_store = make_engine, covers

    def _make_engine(self, _partition: int) -> StockSyncEngine:
        return self._build_engine()

    def _process_value(self, record: Input, value: bytes) -> Sequence[Output]:
        engine = self._engine(record.partition)
        if record.topic == self.topics[1]:
            tick = Tick.decode(value)
            changes = engine.advance_time(TickTime(n=tick.n, at=tick.at))
            return self._outputs(record.partition, changes)
        movement = decode_movement(value)
        if not self._covers_store(movement.store_id):
            return ()
        return self._outputs(record.partition, engine.process_movement(movement))
