"""Standard error for a log: a line that cannot be written is lost, and ends no process."""

from contextlib import suppress
from typing import TextIO


class LogStream:
    """A stream whose full disk, or whose reader that is gone, is no reason to end.

    There is nowhere to say it; when there is space again the next lines are there.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """How much was to be written."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Writes what waits, if it can be."""
        with suppress(OSError):
            self._stream.flush()
