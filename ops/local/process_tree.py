"""Runs the rest of a command in a child process and ends every process that it leaves.

Services of a local stack run in separate sessions: neither Ctrl-C in the terminal nor the end of
the command that started them reaches them. On Linux the parent is their subreaper (prctl(2)), so
orphans stay its descendants and are found; elsewhere only processes with a parent are found.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Together with the default grace this stays well below 10 seconds, even on a busy machine.
TERM_SECONDS = 2.0
GRACE_SECONDS = 3.0
_LOOK_EVERY_SECONDS = 0.05


def fork_supervised(grace_seconds: float = GRACE_SECONDS) -> int | None:
    """Fork; returns None in the child, which runs the command, and its exit code in the parent.

    The parent returns once no process that the command started is left. SIGINT, SIGTERM and SIGHUP
    to the parent interrupt the child (KeyboardInterrupt); after `grace_seconds` all processes that
    are left get SIGTERM, and SIGKILL after two more seconds. The process must have no threads.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    received: list[int] = []

    def note(number: int, _: object) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in _STOPS}
    child = os.fork()
    if child == 0:
        for number, handler in before.items():
            signal.signal(number, handler)
        # A shell starts background commands with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return None
    code = _wait_for(child, received, grace_seconds)
    _end_descendants(quietly=bool(received))
    for number, handler in before.items():
        signal.signal(number, handler)
    return code


def _wait_for(child: int, received: list[int], grace_seconds: float) -> int:
    """The exit code of the child, or that of the signal if it did not end within the grace."""
    deadline: float | None = None
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if received and deadline is None:
            deadline = time.monotonic() + grace_seconds
            # A child in the same terminal has already received SIGINT from the terminal.
            if received[0] != signal.SIGINT or not _shares_terminal(child):
                os.kill(child, signal.SIGINT)
        if deadline is not None and time.monotonic() > deadline:
            return 128 + received[0]
        if pid == 0:
            time.sleep(_LOOK_EVERY_SECONDS)


def _shares_terminal(child: int) -> bool:
    """Whether a Ctrl-C in the terminal reaches the child as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False  # there is none
    try:
        return os.tcgetpgrp(terminal) == os.getpgid(child)
    except OSError:
        return False
    finally:
        os.close(terminal)


def _end_descendants(quietly: bool) -> None:
    left = _descendants()
    if left and not quietly:
        print(f"ending {len(left)} processes that were left: {_names(left)}", file=sys.stderr)
    _send(left, signal.SIGTERM)
    deadline = time.monotonic() + TERM_SECONDS
    while left := _descendants():
        if time.monotonic() > deadline:
            # Repeated, because a process may have started another one meanwhile.
            _send(left, signal.SIGKILL)
        time.sleep(_LOOK_EVERY_SECONDS)


def _descendants() -> list[psutil.Process]:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    return psutil.Process().children(recursive=True)


def _names(found: Iterable[psutil.Process]) -> str:
    names = []
    for process in found:
        # It may have ended while we looked.
        with suppress(psutil.Error):
            names.append(f"{process.name()} ({process.pid})")
    return ", ".join(names)


def _send(found: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in found:
        with suppress(psutil.Error):
            process.send_signal(number)
