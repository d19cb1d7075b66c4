"""Threads for work that would hold up an event loop: a pool for each purpose.

Work of one purpose that does not come back, as while Kafka is stuck, takes no thread of another.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_WorkArguments = ParamSpec("_WorkArguments")
_Result = TypeVar("_Result")


class WorkPool:
    """A number of threads, begun when they are needed first."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(
        self,
        work: Callable[_WorkArguments, _Result],
        *args: _WorkArguments.args,
        **kwargs: _WorkArguments.kwargs,
    ) -> _Result:
        """What the work returns; it is never begun if its caller is cancelled before its turn."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(work, *args, **kwargs))


# Simulations of rules, and what the evaluators have judged by.
SIMULATIONS = WorkPool("simulations", 1)
# Events of a stream's past, read from Kafka.
STREAMS = WorkPool("streams", 4)
# Dead letters, and what the brokers say of the alerts' machinery.
LOOKS = WorkPool("looks", 2)
# What is reckoned and encoded for an answer: work of the processor, which never waits for others.
ANSWERS = WorkPool("answers", 2)
