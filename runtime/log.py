"""What a process writes to its log: one JSON object a line, whatever the values hold.

A value may come from anybody: a path, a header, a store's name. As JSON it is escaped, so it begins
no line of its own and moves no terminal's cursor.
"""

import logging
import sys
from typing import Any, TextIO, cast

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from runtime.log_stream import LogStream

# Of libraries that log by themselves: what somebody may have to do something about.
_LIBRARIES = logging.WARNING


def configure_log() -> None:
    """Log lines of this process go to standard error, those of its libraries too."""
    fields: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.dev.set_exc_info,
        structlog.processors.format_exc_info,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    # Its encoder escapes all that is not ASCII.
    line = structlog.processors.JSONRenderer()
    structlog.configure(processors=[*fields, line], logger_factory=_stderr_logger)
    handler = logging.StreamHandler()
    last: list[Processor] = [ProcessorFormatter.remove_processors_meta, line]
    # Without set_exc_info: of a library's record it says by itself whether there is an error.
    own = [one for one in fields if one is not structlog.dev.set_exc_info]
    handler.setFormatter(ProcessorFormatter(processors=last, foreign_pre_chain=own))
    # Nothing where there is a handler already, as in a test.
    logging.basicConfig(level=_LIBRARIES, handlers=[handler])


def printable(text: str) -> str:
    """The text with every sign that is none to print as its escape, for a line that people read.

    >>> printable("Zürich\\x1b[2J\\n")
    'Zürich\\\\x1b[2J\\\\n'
    """
    return "".join(map(_printable_sign, text))


def _printable_sign(sign: str) -> str:
    return sign if sign.isprintable() else ascii(sign)[1:-1]


def _stderr_logger(*_names: Any) -> structlog.PrintLogger:
    # Looked up at each line: structlog's own factory keeps the stream of the moment of its making.
    return structlog.PrintLogger(cast(TextIO, LogStream(sys.stderr)))
