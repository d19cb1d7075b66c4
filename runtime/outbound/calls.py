"""The calls under way, on a thread of their own: a processor's loop waits for none of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()
# Files that are written wait in threads: so many, that some folders that hang hold up no others.
_MOST_WAITING = 128
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class CallsUnderWay(Generic[Asked, Answer]):
    """Begins calls, and keeps what came of them until it is asked for.

    `call` makes one; `failed` is the answer of one that raises: whatever it is, nobody may wait for
    ever for an answer that does not come. Of two with one `key` the first has to be taken before.
    """

    def __init__(
        self,
        call: Callable[[Asked], Awaitable[Answer]],
        key: Callable[[Asked], Hashable],
        failed: Callable[[Exception], Answer],
    ) -> None:
        self._call, self._key, self._failed = call, key, failed
        # The processor's thread alone looks into it.
        self._under_way: dict[Hashable, Asked] = {}
        # Appended by the calls' thread, taken by the processor's.
        self._ended: deque[tuple[Asked, Answer]] = deque()
        # One thread for all calls: they wait, and compute nothing.
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_MOST_WAITING, "calls"))
        self._thread = Thread(target=self._loop.run_forever, name="calls", daemon=True)
        self._thread.start()

    def begin(self, asked: Asked) -> None:
        """Call; that it is tried is stored already."""
        self._under_way[self._key(asked)] = asked
        asyncio.run_coroutine_threadsafe(self._answer(asked), self._loop)

    def under_way(self) -> list[Asked]:
        """What was called for and whose answers were not taken yet."""
        return [*self._under_way.values()]

    def take_answers(self) -> list[tuple[Asked, Answer]]:
        """What came of the calls that have ended, each once."""
        found = []
        while self._ended:
            ended = self._ended.popleft()
            self._under_way.pop(self._key(ended[0]), None)
            found.append(ended)
        return found

    def close(self) -> None:
        """End the thread; calls under way are given up, and count as unanswered."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _answer(self, asked: Asked) -> None:
        try:
            answer = await self._call(asked)
        except Exception as error:
            log.exception("not called", key=str(self._key(asked)))
            answer = self._failed(error)
        self._ended.append((asked, answer))

    async def _cancel(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
