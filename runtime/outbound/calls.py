"""Calls under way on a separate thread: a processor's loop waits for none of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from threading import Thread
from typing import Generic, NamedTuple, Protocol, TypeVar

import structlog

from runtime.outbound.caller import OutboundAnswer

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
    """Begins calls, and keeps their answers until they are taken.

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
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
