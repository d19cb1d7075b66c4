"""The calls of a partition to other systems: which begin, in which order, and what comes of them.

Each method returns the changed records. They are stored in one transaction with the positions of
the consumed records, and only then are the calls made that `begin_attempts()` returned.

    advance_time(tick)    what time brings about, and the end of records that are no longer needed
    begin_attempts()      one more attempt of the first message of each lane, when it is due
    record_answer()       the outcome of an attempt
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from runtime.outbound.lanes import Lanes, Message
from runtime.outbound.records import DroppedRecord, TickTime, UndeliveredMessages
from tally.time.instants import DAY_MILLIS

Record = TypeVar("Record")
Stored = TypeVar("Stored")
Call = TypeVar("Call")
Answer = TypeVar("Answer")


class OutboundMemory(ABC, Generic[Message]):
    """The records of a partition's state, indexed for look-ups.

    It is built from the records alone, so a restored memory answers like the one that wrote them.
    """

    def __init__(self) -> None:
        self.time = TickTime(n=0, at=0)
        # The highest order of a message.
        self.order = 0
        # Messages without a final outcome.
        self.waiting: Lanes[Message] = Lanes()

    @abstractmethod
    def remember(self, record: Any) -> None:
        """Store a record in place of the previous one of its key."""

    def remember_all(self, records: Sequence[Stored]) -> list[Stored]:
        """Store records at once, so that the next message has a higher order; returns them."""
        for record in records:
            self.remember(record)
        return [*records]

    def summarise_undelivered(self, _now: int) -> Mapping[str, UndeliveredMessages]:
        """By channel what has not arrived at an instant, milliseconds since 1970 (UTC)."""
        return {}


Memory = TypeVar("Memory", bound=OutboundMemory[Any])


class StartedCalls(NamedTuple, Generic[Call]):
    """The records to store, and the calls to make once they are stored."""

    records: list[Any]
    calls: list[Call]


class OutboundEngine(ABC, Generic[Memory, Message, Record, Call, Answer]):
    """The messages of one partition, each called for until it ends; each sender adds its rules."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def advance_time(self, tick: TickTime) -> list[Record | DroppedRecord]:
        """The records that a tick changes; a tick without news changes nothing.

        Ticks are facts from several tickers, so the larger number and the later instant count.
        """
        time = self.memory.time
        n, at = max(tick.n, time.n), max(tick.at, time.at)
        if (n, at) == (time.n, time.at):
            return []
        undelivered = dict(self.memory.summarise_undelivered(at))
        newest = TickTime(n=n, at=at, undelivered=undelivered)
        self.memory.remember(newest)
        changes: list[Any] = [newest, *self._pass_time(time.at)]
        # Once a day is enough, because this goes through all records.
        if at // DAY_MILLIS != time.at // DAY_MILLIS:
            changes += self._drop_outdated()
        return changes

    def begin_attempts(
        self, under_way: Collection[Call], reserve: Callable[[Message], bool] | None = None
    ) -> StartedCalls[Call]:
        """The messages whose turn it is, with one more attempt, and those that end without one.

        A lane with a call under way has no turn. `reserve`: takes a place for a call, and returns
        whether there was one; by default as if no other partition called.
        """
        begun: StartedCalls[Call] = StartedCalls([], [])
        # Before any tick there is no time for an attempt to begin at.
        if not self.memory.time.at:
            return begun
        reserve = reserve or self._own_room(under_way)
        stays: set[str] = set()
        is_moving = True
        while is_moving:
            is_moving = False
            busy = self._busy_lanes([*under_way, *begun.calls])
            for message in self._turns(busy):
                if message.key in stays:
                    continue
                stays.add(message.key)
                ended = self._end_turn(message)
                if ended is not None:
                    begun.records.extend(self.memory.remember_all(ended))
                    # A message that ends without a call makes room for the next one of its lane.
                    is_moving |= bool(ended)
                elif reserve(message):
                    call = self._begin_attempt(message)
                    begun.records.extend(self.memory.remember_all([self._get_message(call)]))
                    begun.calls.append(call)
        return begun

    def record_answer(self, call: Call, answer: Answer) -> list[Record]:
        """The records that an answer changes; an answer to an earlier attempt changes nothing."""
        called = self._get_message(call)
        known = self._find_open(called)
        if known is None or known.attempts != called.attempts:
            return []
        return self.memory.remember_all(self._apply_answer(call, answer))

    def restore(self, records: Iterable[Record]) -> None:
        """Replace the memory with these records."""
        self.memory = type(self.memory)()
        self.memory.remember_all([*records])

    def _turns(self, busy: Collection[str]) -> list[Message]:
        now = self.memory.time.at
        due = (message for message in self.memory.waiting.heads() if message.due_at <= now)
        free = (message for message in due if not any(lane in busy for lane in message.lane_keys))
        return sorted(free, key=self._urgency)

    def _busy_lanes(self, calls: Iterable[Call]) -> set[str]:
        return {lane for call in calls for lane in self._get_message(call).lane_keys}

    def _urgency(self, message: Message) -> Any:
        """The sort key of the turns, ascending; by default in their order."""
        return message.order

    @abstractmethod
    def _pass_time(self, before: int) -> Sequence[Record]:
        """The records that the newest tick changes; `before`: the instant of the one before."""

    @abstractmethod
    def _drop_outdated(self) -> Sequence[Record | DroppedRecord]:
        """The records that are deleted, because they are no longer needed."""

    @abstractmethod
    def _own_room(self, under_way: Collection[Call]) -> Callable[[Message], bool]:
        """Takes places as if no other partition called."""

    @abstractmethod
    def _end_turn(self, message: Message) -> Sequence[Record] | None:
        """The records of a message that ends without a call; none if it stays, None: call it."""

    @abstractmethod
    def _begin_attempt(self, message: Message) -> Call:
        """The call of a message, with one more attempt."""

    @abstractmethod
    def _get_message(self, call: Call) -> Message:
        """The message of a call, as it is stored while the call is under way."""

    @abstractmethod
    def _find_open(self, called: Message) -> Message | None:
        """The message as it is stored now, if an answer may still change it."""

    @abstractmethod
    def _apply_answer(self, call: Call, answer: Answer) -> Sequence[Record]:
        """The records after the answer to the last attempt."""
