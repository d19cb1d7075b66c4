"""Whose simulation is next: one at a time, and few may wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tally.errors import SimulationsBusy

MOST_WAITING = 4


class SimulationTurns:
    """Hands out turns in the order in which they were asked for."""

    def __init__(self) -> None:
        # It is work of the processor, whoever asks: others want their answers meanwhile.
        self._one = asyncio.Semaphore()
        self._waiting = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One simulation's own time. Raises SimulationsBusy where MOST_WAITING wait already."""
        if self._waiting >= MOST_WAITING:
            raise SimulationsBusy(f"{MOST_WAITING} simulations wait already; ask again later")
        self._waiting += 1
        try:
            await self._one.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._one.release()
