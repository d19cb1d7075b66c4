"""The newest dead letters, for the pages that show them."""

import asyncio
import time

from runtime.http.work_pools import LOOKUPS
from runtime.records.dead_letter import DeadLetter, read_newest_letters
from tally.config.settings import Settings
from tally.errors import TallyError

# The number read of each partition; reading all of them would take longer the older Tally is.
MAX_LETTERS = 1_000
# A page that many people open reads the topic only once in this time.
_CACHE_SECONDS = 15.0


class LetterReader:
    """The dead letters of the topic, read by one thread at a time and cached for some seconds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._read_lock = asyncio.Lock()
        self._letters: list[DeadLetter] = []
        self._failure: TallyError | None = None
        self._read_at = -_CACHE_SECONDS

    async def newest(self) -> list[DeadLetter]:
        """The newest letters of each partition, by time. Raises StackError, TallyError."""
        async with self._read_lock:
            if time.monotonic() - self._read_at >= _CACHE_SECONDS:
                await LOOKUPS.run(self._read)
                self._read_at = time.monotonic()
        if self._failure is not None:
            raise self._failure
        return self._letters

    def _read(self) -> None:
        # A failure is cached too: with a dead broker each page would wait for all those before it.
        try:
            self._letters = [*read_newest_letters(self._settings, MAX_LETTERS).values()]
            self._failure = None
        except TallyError as error:
            self._failure = error
