"""An answer that is an event stream: it goes on as long as its client takes what is sent."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from typing import cast

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from runtime.protocol import MORE_TIME
from serving.alerts.stream.blocks import MEDIA_TYPE

# Nobody on the way keeps or gathers what is to be there at once.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """Blocks, each of which gives the connection its time anew.

    A client that takes nothing is cut off when its time is over (runtime/protocol.py): the next
    block waits until the one before has left, and is not fetched before.
    """

    media_type = MEDIA_TYPE
    _held: ExitStack

    @classmethod
    def of(cls, request: Request, blocks: AsyncIterator[bytes], held: ExitStack) -> "EventStream":
        """The answer to this request; `held` is closed when it has ended, sent or not."""
        extension = request.scope.get("extensions", {}).get(MORE_TIME, {})
        ask = cast("Callable[[], None]", extension.get("ask", _nothing))
        answer = cls(_timed(blocks, ask), headers=_HEADERS)
        answer._held = held
        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the blocks until they end or the client is gone."""
        # Not in the blocks' own `finally`: a client may be gone before the first of them.
        with self._held:
            await super().__call__(scope, receive, send)


async def _timed(
    blocks: AsyncIterator[bytes],
    ask: Callable[[], None],
) -> AsyncIterator[bytes]:
    async for block in blocks:
        # The block before has been sent by now.
        ask()
        yield block


def _nothing() -> None:
    """Where no server of ours stands before the application."""
