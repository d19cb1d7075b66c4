"""Work that is cancelled when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

_Result = TypeVar("_Result")


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
