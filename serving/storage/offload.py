"""Runs CPU work outside the event loop where it is long enough to hold up other answers."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from runtime.http.work_pools import ANSWERS

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
# This many rows, windows or stretches are some milliseconds of work; handing it to a thread takes a
# tenth of one.
LARGE = 2_000


async def run_in_thread_if_large(
    size: int,
    work: Callable[_Arguments, _Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Result:
    """The result of the work, which runs in a thread if its size is LARGE or more."""
    if size < LARGE:
        return work(*args, **kwargs)
    return await ANSWERS.run(work, *args, **kwargs)
