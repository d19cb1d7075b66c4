"""Start and end of a job: its log, its signals, its readiness, and one line about an error.

The exit code shows whether a restart may help.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

from confluent_kafka import KafkaException

from runtime.process.files import write_atomically
from runtime.process.log import configure_log, escape_unprintable
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
    """Run the work as run_job() until SIGTERM or SIGINT sets its event; return the exit code.

    A signal that arrives before the work begins counts too.
    """
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
