"""The newest dead letters, as the pages show them."""

import asyncio
import time
from typing import Protocol

from runtime.dead_letter import DeadLetter, newest_letters
from runtime.work_pools import LOOKS
from tally.errors import TallyError
from tally.settings import Settings

# Of each partition; all of them would take as long as Tally has run.
MOST_LETTERS = 1_000
# A page that many people open reads the topic once in so long.
_KEPT_SECONDS = 15.0


class LetterReader(Protocol):
    """Reads dead letters."""

    async def newest(self) -> list[DeadLetter]:
        """The newest of each partition, in the order of time. Raises StackError."""
        ...


class TopicLetters:
    """Those of the topic, read by one thread at a time and kept for some seconds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reading = asyncio.Lock()
        self._found: list[DeadLetter] = []
        self._failure: TallyError | None = None
        self._read_at = -_KEPT_SECONDS

    async def newest(self) -> list[DeadLetter]:
        """As LetterReader has it. Raises StackError, TallyError for a record that is no letter."""
        async with self._reading:
            if time.monotonic() - self._read_at >= _KEPT_SECONDS:
                await LOOKS.run(self._read)
                self._read_at = time.monotonic()
        if self._failure is not None:
            raise self._failure
        return self._found

    def _read(self) -> None:
        # A failure is kept as well: beside a dead broker each page would wait for all before it.
        try:
            self._found = [*newest_letters(self._settings, MOST_LETTERS).values()]
            self._failure = None
        except TallyError as error:
            self._failure = error
