"""The processor step of a sender: records to messages, their attempts and their outcomes.

    process(record)    what a record brings about, into the state
    before_commit()    outcomes of calls, and the attempts that are due, into the state
    on_commit()        now that they are stored: the calls

A call is never made before its attempt is stored, and never within a transaction. A process that
restores the state finds each attempt, with or without its outcome; an attempt without one is
treated as unanswered.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from threading import Thread
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
import structlog

from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.engine import OutboundEngine, RecordCodec
from runtime.processor.step import Input, Output, Step, log_unreadable, newest_values, parse_state
from tally.errors import BadInstant

log = structlog.get_logger()


class KeyedCall(Protocol):
    """A call; of two with one key the second begins after the answer of the first."""

    @property
    def key(self) -> str:
        """Its key."""


Call = TypeVar("Call", bound=KeyedCall)
Answer = TypeVar("Answer", bound=OutboundAnswer)


class PlacedCall(NamedTuple, Generic[Call]):
    """A call, and the partition that it belongs to.

    `secrets`: names of the keys that sign it, where they differ from call to call.
    """

    partition: int
    call: Call
    secrets: tuple[str, ...] = ()


class PendingCalls(Generic[Call, Answer]):
    """Calls on a thread of their own, for which no loop waits; answers are kept until taken.

    `call` makes one call; `answer_type` makes the answer of a call that raises: after any error the
    caller must get an answer.
    """

    def __init__(
        self, call: Callable[[PlacedCall[Call]], Awaitable[Answer]], answer_type: type[Answer]
    ) -> None:
        self._call, self._answer_type = call, answer_type
        # Only the processor's thread accesses it.
        self._pending: dict[tuple[int, str], PlacedCall[Call]] = {}
        # The calls' thread appends, the processor's thread takes.
        self._completed: deque[tuple[PlacedCall[Call], Answer]] = deque()
        # One thread for all calls: they wait, and compute nothing.
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="calls", daemon=True)
        self._thread.start()

    def begin(self, placed: PlacedCall[Call]) -> None:
        """Begin a call; the attempt must be stored already."""
        self._pending[placed.partition, placed.call.key] = placed
        asyncio.run_coroutine_threadsafe(self._answer(placed), self._loop)

    def pending_calls(self) -> list[PlacedCall[Call]]:
        """The calls whose answers are not taken yet."""
        return [*self._pending.values()]

    def take_answers(self) -> list[tuple[PlacedCall[Call], Answer]]:
        """The answers of calls that have ended, each returned once."""
        found = []
        while self._completed:
            placed, answer = self._completed.popleft()
            self._pending.pop((placed.partition, placed.call.key), None)
            found.append((placed, answer))
        return found

    def close(self) -> None:
        """End the thread; calls under way are given up, and count as unanswered."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _answer(self, placed: PlacedCall[Call]) -> None:
        try:
            answer = await self._call(placed)
        except Exception as error:
            log.exception("not called", key=placed.call.key)
            answer = self._answer_type(error=f"{type(error).__name__}: {error}"[:200])
        self._completed.append((placed, answer))

    async def _cancel(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


Engine = TypeVar("Engine", bound=OutboundEngine[Any, Any, Any, Any, Any])
# Takes a place for a call; whether there was one.
TakePlace: TypeAlias = Callable[[Any], bool]


class OutboundStep(Step, Generic[Engine, Call, Answer]):
    """The messages of the assigned partitions, each partition with an engine of its own.

    `codec` has the form of the records in the state topic.
    """

    def __init__(self, calls: PendingCalls[Call, Answer], codec: RecordCodec[Any]) -> None:
        self._calls, self._codec = calls, codec
        self._engines: dict[int, Engine] = {}
        self._to_call: list[PlacedCall[Call]] = []

    def process(self, record: Input) -> Sequence[Output]:
        """The outputs of a record: changed records of the state, and tombstones."""
        if record.value is None:
            return []
        try:
            return self._process_value(record, record.value)
        # Another program wrote this record.
        except (msgspec.DecodeError, BadInstant) as error:
            log_unreadable(record, error)
            return []

    def before_commit(self) -> Sequence[Output]:
        """The outputs of the calls that have ended, and of the attempts that are due now."""
        outputs: list[Output] = []
        for placed, answer in self._calls.take_answers():
            self._note_answer(placed, answer)
            # If the partition was revoked, its next owner makes the call again.
            if placed.partition in self._engines:
                changes = self._engines[placed.partition].record_answer(placed.call, answer)
                outputs += self._outputs(placed.partition, changes)
        # After the answers, because a call that has just ended frees its lane for the next one.
        pending = self._calls.pending_calls()
        reserve = self._room(pending)
        for partition, engine in self._engines.items():
            calls = [placed.call for placed in pending if placed.partition == partition]
            begun = engine.begin_attempts(calls, reserve)
            outputs += self._outputs(partition, begun.records)
            self._to_call += [self._place(partition, call) for call in begun.calls]
        return outputs

    def on_commit(self) -> None:
        """Begin the calls whose attempts are stored now."""
        to_begin, self._to_call = self._to_call, []
        for placed in to_begin:
            self._calls.begin(placed)

    def restore(self, state: Iterable[Input]) -> None:
        """Rebuild the engines from their records; calls that had not begun are due again.

        Raises UnrecoverableError for a record that is not the sender's own.
        """
        # Their transaction may have been aborted; if it was committed, they are due again.
        self._to_call = []
        newest = newest_values(state, lambda record: parse_state(record, self._codec.decode))
        self._engines = {}
        for partition, records in newest.items():
            self._engine(partition).restore(records.values())

    def close(self) -> None:
        """Abandon the calls under way: they count as unanswered."""
        self._calls.close()

    def _engine(self, partition: int) -> Engine:
        if partition not in self._engines:
            self._engines[partition] = self._make_engine(partition)
        return self._engines[partition]

    def _outputs(self, partition: int, changes: Sequence[Any]) -> list[Output]:
        key, encode = self._codec.key, self._codec.encode
        return [
            Output(self.state_topic, key(change), encode(change), partition) for change in changes
        ]

    @abstractmethod
    def _make_engine(self, partition: int) -> Engine:
        """A new engine of a partition."""

    @abstractmethod
    def _process_value(self, record: Input, value: bytes) -> Sequence[Output]:
        """The outputs of a record's value. Raises msgspec.DecodeError or BadInstant."""

    def _place(self, partition: int, call: Call) -> PlacedCall[Call]:
        """The call with what is needed to make it."""
        return PlacedCall(partition, call)

    def _room(self, _pending: Sequence[PlacedCall[Call]]) -> TakePlace | None:
        """Takes places that all partitions share; None: each has its own."""
        return None

    def _note_answer(self, _placed: PlacedCall[Call], _answer: Answer) -> None:
        """Note an answer beside the state."""
