"""Answers that depend on whether their client is still there: event streams, and long work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack
from typing import Any, TypeVar, cast

from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from alerting.stream.blocks import MEDIA_TYPE
from runtime.http.protocol import MORE_TIME

_Result = TypeVar("_Result")
# Proxies must neither cache nor buffer the stream, because its events have to arrive at once.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """A response of blocks, each of which restarts the connection's time limit.

    A client that reads nothing is disconnected when its time is over (runtime/http/protocol.py):
    the next block is fetched only after the previous one has been sent.
    """

    media_type = MEDIA_TYPE
    _resources: ExitStack

    @classmethod
    def from_blocks(
        cls, request: Request, blocks: AsyncIterator[bytes], resources: ExitStack
    ) -> "EventStream":
        """The answer to this request; `resources` is closed when it has ended, sent or not."""
        extension = request.scope.get("extensions", {}).get(MORE_TIME, {})
        ask = cast("Callable[[], None]", extension.get("ask", _do_nothing))
        answer = cls(_extend_time(blocks, ask), headers=_HEADERS)
        answer._resources = resources
        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the blocks until they end or the client disconnects."""
        # Not closed in a `finally` of the blocks: a client may leave before the first block.
        with self._resources:
            await super().__call__(scope, receive, send)


async def _extend_time(
    blocks: AsyncIterator[bytes], ask: Callable[[], None]
) -> AsyncIterator[bytes]:
    async for block in blocks:
        # The previous block has been sent by now.
        ask()
        yield block


def _do_nothing() -> None:
    """Stand-in for the time extension when another server runs the application."""


async def run_until_disconnect(
    request: Request, work: Coroutine[Any, Any, _Result]
) -> _Result | None:
    """The result of the work; None if the client disconnects first, and the work is cancelled.

    The body of the request has to be read before. Raises what the work raises.
    """
    task, disconnect = (
        asyncio.ensure_future(work),
        asyncio.ensure_future(_wait_for_disconnect(request)),
    )
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        disconnect.cancel()
        await asyncio.wait((task, disconnect))


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
