"""The calls of a partition to other systems: which begin, in which order, and what comes of them.

Each method returns the changed records. They are stored in one transaction with the positions of
the consumed records, and only then are the calls made that `begin_attempts()` returned.

    advance_time(tick)    what time brings about, and the end of records that are no longer needed
    begin_attempts()      one more attempt of the first message of each lane, when it is due
    record_answer()       the outcome of an attempt
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from tally.time.instants import DAY_MILLIS

Change = TypeVar("Change")
Record = TypeVar("Record")
Stored = TypeVar("Stored")
Call = TypeVar("Call")
Answer = TypeVar("Answer")


class UndeliveredMessages(Struct, frozen=True):
    """The messages of a channel that have not arrived, in one partition.

    `waiting_since`: the first due time of the oldest waiting message, None if none waits; `dead`:
    the number of stored messages that were given up; `blocked`: the number of messages that wait
    for a repair of secrets, address or permissions.
    """

    waiting_since: int | None = None
    dead: int = 0
    blocked: int = 0


class TickTime(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="is",
    tag="tick",
):
    """Number and instant of the newest tick; `undelivered`: by channel what had not arrived."""

    n: int
    at: int
    undelivered: dict[str, UndeliveredMessages] = {}

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return "tick"


class DroppedRecord(Struct, frozen=True):
    """A record to delete, by its key in the topic."""

    topic_key: bytes


class RecordCodec(Generic[Change]):
    """Keys and values of records in a state topic; `key_text`: the key of a record as text."""

    def __init__(self, kinds: Any, key_text: Callable[[Change], str]) -> None:
        self._decoder, self._encoder = msgspec.json.Decoder(kinds), msgspec.json.Encoder()
        self._key_text = key_text

    def key(self, change: Change | DroppedRecord) -> bytes:
        """The record's key in the topic."""
        if isinstance(change, DroppedRecord):
            return change.topic_key
        return self._key_text(change).encode()

    def encode(self, change: Change | DroppedRecord) -> bytes | None:
        """The record's value: JSON whose field `is` names its kind; None deletes the record."""
        return None if isinstance(change, DroppedRecord) else self._encoder.encode(change)

    def decode(self, value: bytes) -> Change:
        """The record in a value of the topic. Raises msgspec.DecodeError."""
        found: Change = self._decoder.decode(value)
        return found


class LanedMessage(Protocol):
    """A message that waits for the earlier ones of its lanes, of which it has at least one."""

    @property
    def key(self) -> str:
        """Its key among all messages."""

    @property
    def lane_keys(self) -> tuple[str, ...]:
        """Its lanes."""

    @property
    def order(self) -> int:
        """Its place among all messages."""

    @property
    def due_at(self) -> int:
        """When it is due, milliseconds since 1970 (UTC)."""

    @property
    def attempts(self) -> int:
        """The number of its attempts."""


Message = TypeVar("Message", bound=LanedMessage)


class Lanes(dict[str, Message]):
    """The waiting messages by key, in any order of arrival, changed by put() and remove() only."""

    def __init__(self) -> None:
        super().__init__()
        # By lane its messages by order and key, ascending. Each lane is a list: in a dict, finding
        # the first entry takes longer the more entries before it were deleted.
        self._queues: dict[str, list[tuple[int, str]]] = {}

    def put(self, message: Message) -> None:
        """Add a message, in place of the one with its key."""
        known = self.get(message.key)
        if known is None or (known.order, known.lane_keys) != (message.order, message.lane_keys):
            self.remove(message.key)
            for lane in message.lane_keys:
                insort(self._queues.setdefault(lane, []), (message.order, message.key))
        self[message.key] = message

    def remove(self, key: str) -> None:
        """Remove the message, if it waits."""
        message = self.pop(key, None)
        if message is None:
            return
        for lane in message.lane_keys:
            queue = self._queues[lane]
            del queue[bisect_left(queue, (message.order, key))]
            # There are many lanes, and few of them have a waiting message at a time.
            if not queue:
                del self._queues[lane]

    def heads(self) -> list[Message]:
        """The messages that are the first ones of all their lanes."""
        firsts = {lane: queue[0][1] for lane, queue in self._queues.items()}
        return [
            self[key]
            for key in dict.fromkeys(firsts.values())
            if all(firsts[lane] == key for lane in self[key].lane_keys)
        ]


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
            calls = [*under_way, *begun.calls]
            busy = {lane for call in calls for lane in self._get_message(call).lane_keys}
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

    def _turns(self, busy: set[str]) -> list[Message]:
        now = self.memory.time.at
        due = (message for message in self.memory.waiting.heads() if message.due_at <= now)
        free = (message for message in due if not busy.intersection(message.lane_keys))
        return sorted(free, key=self._urgency)

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
