"""An answer that is an event stream: it goes on as long as its client takes what is sent."""

from collections.abc import AsyncIterator, Callable
from typing import cast

from starlette.requests import Request
from starlette.responses import StreamingResponse

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

    @classmethod
    def of(cls, request: Request, blocks: AsyncIterator[bytes]) -> "EventStream":
        """The answer to this request."""
        extension = request.scope.get("extensions", {}).get(MORE_TIME, {})
        ask = cast("Callable[[], None]", extension.get("ask", _nothing))
        return cls(_timed(blocks, ask), headers=_HEADERS)


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
