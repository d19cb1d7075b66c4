"""Log of a process: one JSON object per line, for any values.

A value may come from outside: a path, a header, a store's name. As JSON it is escaped, so it cannot
begin a line of its own or move a terminal's cursor.
"""

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

# The level of libraries that log by themselves: lines that may need an operator.
_LIBRARIES = logging.WARNING


class LogStream:
    """Standard error that ignores a full disk, or a reader that is gone: no process fails of it.

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


def configure_log() -> None:
    """Send the log lines of this process and of its libraries to standard error."""
    fields: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.dev.set_exc_info,
        structlog.processors.format_exc_info,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    # The renderer's encoder escapes all characters outside ASCII.
    line = structlog.processors.JSONRenderer()
    structlog.configure(processors=[*fields, line], logger_factory=_stderr_logger)
    handler = logging.StreamHandler()
    last: list[Processor] = [ProcessorFormatter.remove_processors_meta, line]
    # Without set_exc_info: a library's record itself states whether there is an error.
    library_fields = [field for field in fields if field is not structlog.dev.set_exc_info]
    handler.setFormatter(ProcessorFormatter(processors=last, foreign_pre_chain=library_fields))
    # No effect where a handler exists already, as in a test.
    logging.basicConfig(level=_LIBRARIES, handlers=[handler])


def escape_unprintable(text: str) -> str:
    """The text with every unprintable character escaped, for a line that people read.

    >>> escape_unprintable("Zürich\\x1b[2J\\n")
    'Zürich\\\\x1b[2J\\\\n'
    """
    return "".join(map(_escape_character, text))


def _escape_character(sign: str) -> str:
    return sign if sign.isprintable() else ascii(sign)[1:-1]


def _stderr_logger(*_names: Any) -> structlog.PrintLogger:
    # stderr is looked up each time: structlog's own factory keeps the stream it was made with.
    return structlog.PrintLogger(cast(TextIO, LogStream(sys.stderr)))
