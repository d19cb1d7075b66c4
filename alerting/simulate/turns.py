"""A queue of simulations: one runs at a time, and few may wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tally.errors import SimulationsBusy

MAX_WAITING = 4


class SimulationQueue:
    """Hands out turns in the order in which they were asked for."""

    def __init__(self) -> None:
        # Simulations are CPU work: one at a time leaves time for the other requests.
        self._turn_lock = asyncio.Semaphore()
        self._waiting = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Run one simulation alone. Raises SimulationsBusy when MAX_WAITING wait already."""
        if self._waiting >= MAX_WAITING:
            raise SimulationsBusy(f"{MAX_WAITING} simulations wait already; ask again later")
        self._waiting += 1
        try:
            await self._turn_lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turn_lock.release()
