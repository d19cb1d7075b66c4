"""Calls under way on a separate thread: a processor's loop waits for none of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from threading import Thread
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()
Request = TypeVar("Request")
Answer = TypeVar("Answer")


class PendingCalls(Generic[Request, Answer]):
    """Begins calls, and keeps their answers until they are taken.

    `call` makes one call; `failed` makes the answer of a call that raises: after any error the
    caller must get an answer. Of two calls with the same `key` the first answer must be taken
    before the second call begins.
    """

    def __init__(
        self,
        call: Callable[[Request], Awaitable[Answer]],
        key: Callable[[Request], Hashable],
        failed: Callable[[Exception], Answer],
    ) -> None:
        self._call, self._key, self._answer_for_error = call, key, failed
        # Only the processor's thread accesses it.
        self._pending: dict[Hashable, Request] = {}
        # The calls' thread appends, the processor's thread takes.
        self._completed: deque[tuple[Request, Answer]] = deque()
        # One thread for all calls: they wait, and compute nothing.
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="calls", daemon=True)
        self._thread.start()

    def begin(self, request: Request) -> None:
        """Begin a call; the attempt must be stored already."""
        self._pending[self._key(request)] = request
        asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)

    def pending_requests(self) -> list[Request]:
        """The requests whose answers are not taken yet."""
        return [*self._pending.values()]

    def take_answers(self) -> list[tuple[Request, Answer]]:
        """The answers of calls that have ended, each returned once."""
        found = []
        while self._completed:
            ended = self._completed.popleft()
            self._pending.pop(self._key(ended[0]), None)
            found.append(ended)
        return found

    def close(self) -> None:
        """End the thread; calls under way are given up, and count as unanswered."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._call(request)
        except Exception as error:
            log.exception("not called", key=str(self._key(request)))
            answer = self._answer_for_error(error)
        self._completed.append((request, answer))

    async def _cancel(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
