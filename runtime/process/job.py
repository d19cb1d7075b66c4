"""Start and end of a job: log, signals, readiness, watchdog, and one line about an error.

The exit code shows whether a restart may help.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, NoReturn, TextIO, cast

import structlog
from confluent_kafka import KafkaException
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor

from runtime.process.files import write_atomically
from runtime.process.heartbeat import Heartbeat
from schemas.source import BadSource
from tally.config.settings import Settings
from tally.errors import TallyError, UnrecoverableError

DONE, FAILED = 0, 1
# EX_CONFIG of sysexits.h: a restart would end the same way, so supervisors do not restart the job.
REFUSED = 78
# Variable with the file for {"code", "reason"} of this process's end; its starter sets it.
EXIT_FILE = "TALLY_EXIT_FILE"
# Errors that an operator can act on are reported in one line; any other is a fault of this code.
_OPERATOR_ERRORS = (TallyError, BadSource, KafkaException)
# Longer than all calls of one turn together, each with its full time-out.
MAX_SECONDS = 150
_LOOK_SECONDS = 1.0
NICENESS = 10
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
    """Send the log lines of this process and of its libraries to standard error, as JSON.

    A value may come from outside: a path, a header, a store's name. As JSON it is escaped, so it
    cannot begin a line of its own or move a terminal's cursor.
    """
    fields: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    # The renderer's encoder escapes all characters outside ASCII.
    line = structlog.processors.JSONRenderer()
    own: list[Processor] = [structlog.dev.set_exc_info, *fields, line]
    structlog.configure(processors=own, logger_factory=_stderr_logger)
    handler = logging.StreamHandler()
    last: list[Processor] = [ProcessorFormatter.remove_processors_meta, line]
    # Without set_exc_info: a library's record itself states whether there is an error.
    handler.setFormatter(ProcessorFormatter(processors=last, foreign_pre_chain=fields))
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


def run_job(name: str, work: Callable[[], None]) -> int:
    """Run the work and return its exit code: DONE, FAILED or REFUSED.

    DONE when it returns, FAILED on an error that a restart may heal, REFUSED on one that it
    cannot. Its log goes to standard error. Raises any other error than Tally's or Kafka's.
    """
    configure_log()
    try:
        work()
    except _OPERATOR_ERRORS as error:
        # A restart may heal any error of the brokers: only Tally itself and a source's folder
        # refuse.
        code = REFUSED if isinstance(error, UnrecoverableError | BadSource) else FAILED
        return _report_end(name, code, describe_error(error))
    return DONE


def run_until_stopped(name: str, work: Callable[[Event], None]) -> int:
    """Run the work as run_job() until SIGTERM or SIGINT, however early, sets its event."""
    with _stop_signals() as stopped:
        return run_job(name, lambda: work(stopped))


def run_command(name: str, work: Callable[[], int | None]) -> int:
    """Run a command that a user waits for; return its exit code, DONE if it returns none.

    FAILED with one line on standard error for an error of Tally's or Kafka's.
    """
    try:
        return work() or DONE
    except _OPERATOR_ERRORS as error:
        print(f"{name}: {escape_unprintable(describe_error(error))}", file=sys.stderr)
        return FAILED


def signal_ready(settings: Settings) -> None:
    """Touch the ready file, for which the job's starter waits, if one is set."""
    if settings.ready_file:
        settings.ready_file.touch()


class NotifyingEvent(Event):
    """An event that calls a function when it is set for the first time."""

    def __init__(self, say: Callable[[], None]) -> None:
        super().__init__()
        self._announce = say

    def set(self) -> None:
        """Set the event; the first call announces it."""
        if not self.is_set():
            self._announce()
        super().set()


def describe_error(error: TallyError | BadSource | KafkaException) -> str:
    """The error in one line: what, where, the fix."""
    if isinstance(error, KafkaException):
        return f"Kafka: {error.args[0].str()}; `tally doctor` looks for the cause"
    return str(error)


def exit_failed(name: str, reason: str) -> NoReturn:
    """End the process as FAILED from any thread, without closing anything.

    It is for a process whose main thread does not return.
    """
    os._exit(_report_end(name, FAILED, reason))


@contextmanager
def _stop_signals() -> Iterator[Event]:
    """An event that SIGTERM and SIGINT set inside the block."""
    stopped = Event()

    def stop(*_: Any) -> None:
        stopped.set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report_end(name: str, code: int, reason: str) -> int:
    with suppress(OSError):
        print(f"{name}: {escape_unprintable(reason)}", file=sys.stderr, flush=True)
    if file := os.environ.get(EXIT_FILE):
        # The process ends correctly on a full disk too: its exit code suffices for the watcher.
        with suppress(OSError):
            write_atomically(Path(file), json.dumps({"code": code, "reason": reason}))
    return code


def start_watchdog(
    name: str,
    heartbeat: Heartbeat,
    stopped: Event,
    most_looks: int = MAX_SECONDS,
    look_seconds: float = _LOOK_SECONDS,
) -> None:
    """End the process, from a thread, after so many looks at the heartbeat without a beat.

    It watches until the event is set, and as long again after it: a shutdown may hang too. A new
    process can then resume from the positions at the brokers. Seen with librdkafka 2.16.0: a
    transactional call that is under way when the broker dies can ignore its time-out.
    """

    def watch() -> None:
        # Looks are counted, not seconds: a process that was frozen as a whole can beat first.
        beats, looks = heartbeat.beats, 0
        while looks < most_looks:
            time.sleep(look_seconds)
            looks = looks + 1 if stopped.is_set() or beats == heartbeat.beats else 0
            beats = heartbeat.beats
        silent = f"no sign of life for {most_looks * look_seconds:.0f} s"
        # The process ends from this thread and at once: the hanging one cannot close anything.
        exit_failed(name, f"{silent}; start the process again")

    Thread(target=watch, name="watchdog", daemon=True).start()


def lower_process_priority() -> None:
    """Lower the CPU priority of this process, and of all that it starts from now on.

    They get processor time only when no process that readers wait for needs it.
    """
    os.nice(NICENESS)
