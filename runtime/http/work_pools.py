"""Thread pools for work that would block an event loop: one pool per purpose.

Work of one purpose that hangs, for example while Kafka is stuck, takes no thread of another.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
# This many rows, windows or stretches are some milliseconds of work; handing it to a thread takes a
# tenth of one.
LARGE = 2_000


class WorkPool:
    """A number of threads, started when they are first needed."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(
        self,
        work: Callable[_Arguments, _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Run the work; it never starts if its caller is cancelled before its turn."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(work, *args, **kwargs))


# For simulations of rules, and reads of what the evaluators have judged by.
SIMULATIONS = WorkPool("simulations", 1)
# For past events of a stream, read from Kafka.
STREAMS = WorkPool("streams", 4)
# For dead letters, and the brokers' state of the alert services.
LOOKUPS = WorkPool("looks", 2)
# For computing and encoding answers: CPU work, which never waits for other services.
ANSWERS = WorkPool("answers", 2)


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
