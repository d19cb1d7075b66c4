"""An engine of stock calls beside a system that is asked: calls and answers are lost or come late,
others write, processes die. One micro-step an action, so that anything falls between any two."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from inventory.movements.movement import StockMovement
from inventory.sync.calls import (
    CallAnswer,
    CallAttempt,
    CallChange,
    CallRules,
    StockCall,
    call_key,
    decode_call,
    encode_call,
    quantity_after,
)
from inventory.sync.engine import StockSyncEngine
from runtime.outbound.engine import TickTime
from tally.time.instants import DAY_MILLIS
from tests.laws.layers.world import Broken
from tests.support.sources.inventory_book import InventoryBook, ToldBy

BEGIN = 1_795_694_400_000
ITEMS = ("milk", "bread")
COUNTED = 100_000
ONE = 1_000
# So long a call may be on its way: no connection lives longer.
LATEST = 6 * DAY_MILLIS
CallAction = tuple[str, int, int]
CALL_ACTIONS = ("sell", "tick", "call", "answer", "late", "write", "crash")
# What becomes of a call.
ANSWERED, NOT_ARRIVED, ANSWER_LOST, COMES_LATE, BUSY = range(5)
ONCE = ("idempotency_key", "compare_and_set")


@dataclass(frozen=True)
class AdapterRules:
    """How an adapter works: the rules of a mode, and what a wrong one does otherwise.

    `others_write`: somebody else changes levels too, in modes where that is promised to do no harm.
    """

    calls: CallRules
    others_write: bool = False
    stores_before_call: bool = True
    looks_for_reference_first: bool = False
    engine: type[StockSyncEngine] = StockSyncEngine


def movement(number: int, delta: int | None, at: int, counted: int | None = None) -> StockMovement:
    """A movement of this number of one of two articles."""
    item = ITEMS[number % len(ITEMS)]
    seconds = at // ONE
    return StockMovement(
        movement_id=f"pos:367:1:0:{number}#1",
        store_id="367",
        item_id=item,
        delta_milli=delta,
        counted_milli=counted,
        kind="sale" if counted is None else "count",
        happened_at=f"2026-11-26T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:00.000Z",
        receipt=f"pos:367:1:0:{number}",
        index=1,
        of=1,
        source="receipts",
    )


@dataclass
class UnderWay:
    """A call, and for a look what was read first."""

    asked: CallAttempt
    level: ToldBy | None = None
    is_known: bool | None = None


@dataclass
class CallWorld:
    """One partition's adapter, whatever becomes of its processes."""

    rules: AdapterRules
    fired: Counter[str]
    book: InventoryBook = field(default_factory=InventoryBook)
    stored: dict[bytes, bytes] = field(default_factory=dict)
    last: dict[str, StockCall] = field(default_factory=dict)
    taken: list[StockMovement] = field(default_factory=list)
    under_way: list[UnderWay] = field(default_factory=list)
    on_its_way: list[tuple[int, CallAttempt]] = field(default_factory=list)
    now: int = BEGIN
    ticks: int = 0

    def __post_init__(self) -> None:
        self.engine = self.rules.engine(self.rules.calls)
        self.tick(0, 0)
        if self.rules.calls.mode == "absolute":
            for number in range(len(ITEMS)):
                self._take(movement(number, None, number, COUNTED))

    def sell(self, which: int, _how: int) -> None:
        """One of two articles is sold."""
        number = len(self.taken) * 2 + which % 2
        self._take(movement(number, -ONE, 60 * len(self.taken) * ONE))

    def tick(self, which: int, how: int) -> None:
        """Time passes: a moment, or more than any back-off."""
        self.ticks += 1
        self.now += 5 * ONE if which % 2 else (1 + how % 8) * 3_600 * ONE
        self._store(self.engine.advance_time(TickTime(n=self.ticks, at=self.now)))

    def call(self, _which: int, how: int) -> None:
        """What is due is called for."""
        begun = self.engine.begin_attempts([one.asked for one in self.under_way])
        if self.rules.stores_before_call:
            self._store(begun.records)
        for asked in begun.calls:
            one = UnderWay(asked)
            if asked.step == "look":
                self._read(one, first=True)
            self.under_way.append(one)

    def answer(self, which: int, how: int) -> None:
        """What comes of one of the calls."""
        if not self.under_way:
            return
        one = self.under_way.pop(which % len(self.under_way))
        self._store(self.engine.record_answer(one.asked, self._outcome(one, how % 8)))

    def late(self, which: int, _how: int) -> None:
        """A call arrives that nobody waits for any more."""
        self.on_its_way = [one for one in self.on_its_way if one[0] > self.now - LATEST]
        if self.on_its_way:
            self.fired["came late"] += 1
            _, asked = self.on_its_way.pop(which % len(self.on_its_way))
            self._arrive(asked)

    def write(self, which: int, how: int) -> None:
        """Somebody else writes."""
        if self.rules.others_write:
            self.fired["others wrote"] += 1
            self.book.write_by_others(f"367|{ITEMS[which % 2]}", -ONE * (1 + how % 3))

    def crash(self, _which: int, how: int) -> None:
        """The process dies, and another one restores what is stored."""
        self.fired["crashes amid calls"] += bool(self.under_way)
        for number, one in enumerate(self.under_way):
            if one.asked.step != "look" and how >> number & 1:
                self._arrive(one.asked)
        self.under_way = []
        self.engine = self.rules.engine(self.rules.calls)
        self.engine.restore(decode_call(value) for value in self.stored.values())

    def finish(self) -> None:
        """Faults stop: everything is called for, what is on its way arrives, and it is night."""
        for _ in range(400):
            self.call(0, 0)
            while self.under_way:
                self.answer(0, ANSWERED)
            if not self.engine.memory.waiting:
                break
            self.tick(0, 7)
        # After all others: what is still on its way then arrives in nobody's name.
        while self.on_its_way:
            self.late(0, 0)
        self.now += DAY_MILLIS
        self.tick(0, 7)
        self.call(0, 0)
        while self.under_way:
            self.answer(0, ANSWERED)
        self._look()

    def calls(self) -> dict[str, StockCall]:
        """The calls as they were stored last, by movement; what is settled is dropped by then."""
        return self.last

    def _take(self, one: StockMovement) -> None:
        self.taken.append(one)
        self._store(self.engine.process_movement(one))

    def _outcome(self, one: UnderWay, how: int) -> CallAnswer:
        if one.asked.step == "look":
            if how in (NOT_ARRIVED, ANSWER_LOST):
                return CallAnswer(error="no answer")
            self._read(one, first=False)
            assert one.level is not None
            return CallAnswer(
                status=200,
                quantity_milli=one.level.quantity,
                version=one.level.version,
                is_known=bool(one.is_known),
            )
        if how == NOT_ARRIVED:
            return CallAnswer(error="no answer")
        if how == BUSY:
            return CallAnswer(status=429)
        if how == COMES_LATE:
            self.on_its_way.append((self.now, one.asked))
            return CallAnswer(error="no answer")
        status = self._arrive(one.asked)
        self.fired["answers lost"] += how == ANSWER_LOST
        return CallAnswer(error="no answer") if how == ANSWER_LOST else CallAnswer(status=status)

    def _read(self, one: UnderWay, first: bool) -> None:
        """The two things that a look asks, one after the other."""
        if first != self.rules.looks_for_reference_first:
            one.level = self.book.look(one.asked.call.lane)
        else:
            one.is_known = one.asked.call.movement_id in self.book.references

    def _arrive(self, asked: CallAttempt) -> int:
        """The status of a call that arrives."""
        call, mode = asked.call, self.rules.calls.mode
        if asked.step == "set":
            level = quantity_after(call)
            assert level is not None
            if call.version is None:
                self.book.put(call.movement_id, call.lane, level)
                return 204
            is_done = self.book.put_if(call.movement_id, call.lane, level, call.version)
            return 204 if is_done else 412
        key = asked.key if mode == "idempotency_key" else None
        assert call.delta_milli is not None
        self.book.adjust(call.movement_id, call.lane, call.delta_milli, key)
        return 204

    def _store(self, kept: Sequence[CallChange]) -> None:
        for one in kept:
            self.stored.pop(call_key(one), None)
            if isinstance(one, StockCall):
                self.last[one.movement_id] = one
            value = encode_call(one)
            if value is not None:
                self.stored[call_key(one)] = value

    def _look(self) -> None:
        """Raises Broken where a mode has not kept what it promises."""
        mode, applied, calls = self.rules.calls.mode, self.book.applied(), self.calls()
        for one in self.taken:
            self.fired[f"{mode} {calls[one.movement_id].outcome}"] += 1
            times, call = applied[one.movement_id], calls[one.movement_id]
            if call.outcome == "applied" and not times:
                raise Broken(f"{mode}: called applied, and is not")
            if call.outcome == "refused" and times:
                raise Broken(f"{mode}: called refused, and was applied")
            if mode in ONCE and times != 1:
                raise Broken(f"{mode}: applied {times} times")
        self._compare(mode)

    def _compare(self, mode: str) -> None:
        for lane, order in self.book.order().items():
            told = [one for one in self.taken if one.lane == lane]
            sums = sum(one.delta_milli or 0 for one in told)
            counted = sum(one.counted_milli or 0 for one in told)
            expected = counted + sums + self.book.others[lane]
            if self.book.levels[lane] != expected:
                raise Broken(f"{mode}: {self.book.levels[lane]} where {expected} is right")
            mine = [one.movement_id for one in told]
            if mode in ONCE and order != mine:
                raise Broken(f"{mode}: applied in another order")


def play_calls(
    rules: AdapterRules, history: Sequence[CallAction], fired: Counter[str] | None = None
) -> CallWorld:
    """The world after a history. Raises Broken for a promise that was not kept."""
    world = CallWorld(rules, Counter() if fired is None else fired)
    for name, one, other in history:
        getattr(world, name)(one, other)
    world.finish()
    return world
