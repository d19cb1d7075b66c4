"""Standard error for a log: a line that cannot be written is lost, and no process fails."""

from contextlib import suppress
from typing import TextIO


class LogStream:
    """A stream that ignores a full disk, or a reader that is gone.

    There is nowhere to report it; once there is space again the next lines are written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text if possible; return its length in characters."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush buffered text if possible."""
        with suppress(OSError):
            self._stream.flush()
