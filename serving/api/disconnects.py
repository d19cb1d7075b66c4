"""Work that ends with the client that asked for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

_Result = TypeVar("_Result")


async def until_disconnected(
    request: Request, work: Coroutine[Any, Any, _Result]
) -> _Result | None:
    """What the work returns; None once the client has hung up, and the work is cancelled.

    The body of the request has to be read before. Raises what the work raises.
    """
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        left.cancel()
        await asyncio.wait((task, left))


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
