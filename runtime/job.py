"""How a job begins and ends: its log, its signals, when it is ready, one line about an error.

The exit code says whether a new start may heal the error.
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

from runtime.log import configure_log, printable
from runtime.whole_file import keep_whole
from schemas.source import BadSource
from tally.errors import Refused, TallyError
from tally.settings import Settings

DONE, FAILED = 0, 1
# EX_CONFIG of sysexits.h: started again it would end the same way, so nobody starts it again by
# himself.
REFUSED = 78
# File that takes {"code", "reason"} of the end of this process; set by whoever starts it.
EXIT_FILE = "TALLY_EXIT_FILE"
# What somebody can do something about is told in one line; anything else is a fault of ours.
_TOLD = (TallyError, BadSource, KafkaException)


def run_job(name: str, work: Callable[[], None]) -> int:
    """Exit code of the work: DONE, FAILED or REFUSED.

    DONE when it returns, FAILED on an error that a new start may heal, REFUSED on one that it
    cannot. Its log goes to standard error. Raises whatever is no error of Tally's or Kafka's.
    """
    configure_log()
    try:
        work()
    except _TOLD as error:
        # Whatever the brokers say, a new start may heal it: Tally itself refuses, and a source's
        # folder.
        code = REFUSED if isinstance(error, Refused | BadSource) else FAILED
        return _ended(name, code, reason_of(error))
    return DONE


def run_until_stopped(name: str, work: Callable[[Event], None]) -> int:
    """Exit code of work that goes on until its event is set: by SIGTERM or SIGINT. As run_job().

    A signal that comes before the work begins counts too.
    """
    with _stop_signals() as stopped:
        return run_job(name, lambda: work(stopped))


def run_verb(name: str, work: Callable[[], int | None]) -> int:
    """Exit code of what somebody waits for: the work's own, DONE without one.

    FAILED with one line on standard error for an error of Tally's or Kafka's.
    """
    try:
        return work() or DONE
    except _TOLD as error:
        print(f"{name}: {printable(reason_of(error))}", file=sys.stderr)
        return FAILED


def say_ready(settings: Settings) -> None:
    """Touch the file that whoever started the job waits for, if there is one."""
    if settings.ready_file:
        settings.ready_file.touch()


class Announced(Event):
    """An event that says so when it is set for the first time."""

    def __init__(self, say: Callable[[], None]) -> None:
        super().__init__()
        self._say = say

    def set(self) -> None:
        """The event has come."""
        if not self.is_set():
            self._say()
        super().set()


def reason_of(error: TallyError | BadSource | KafkaException) -> str:
    """The error in one line: what, where, the fix."""
    if isinstance(error, KafkaException):
        return f"Kafka: {error.args[0].str()}; `tally doctor` looks for the cause"
    return str(error)


def end_now(name: str, reason: str) -> NoReturn:
    """Ends the process as FAILED from whichever thread calls, nothing closed.

    For one whose main thread does not come back.
    """
    os._exit(_ended(name, FAILED, reason))


@contextmanager
def _stop_signals() -> Iterator[Event]:
    """Set by SIGTERM and SIGINT inside the block."""
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


def _ended(name: str, code: int, reason: str) -> int:
    with suppress(OSError):
        print(f"{name}: {printable(reason)}", file=sys.stderr, flush=True)
    if file := os.environ.get(EXIT_FILE):
        # On a full disk too it ends as it has to: by its code the watcher knows what to do.
        with suppress(OSError):
            keep_whole(Path(file), json.dumps({"code": code, "reason": reason}))
    return code
