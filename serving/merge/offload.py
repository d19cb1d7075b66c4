"""Work of the processor beside the event loop.

That is where it is long enough to hold up everybody else's answers.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from runtime.work_pools import ANSWERS

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
# Some milliseconds of work on rows, windows or stretches; to hand it to a thread takes a tenth of
# one.
LARGE = 2_000


async def computed(
    size: int,
    work: Callable[_Arguments, _Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Result:
    """What the work returns; done in a thread if it is about a large number of things."""
    if size < LARGE:
        return work(*args, **kwargs)
    return await ANSWERS.run(work, *args, **kwargs)
