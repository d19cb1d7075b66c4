"""Processes that the stack started: their records on disk, and the mark of their children.

The mark finds every child of a service. A PySpark JVM outlives its driver, and Airflow's components
outlive their parent, so a pid alone is not enough to end a service. Each process inherits
TALLY_SERVICE=<home>:<service>, so remaining processes are found and no others are touched.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from ops.local.machine import owner_only
from runtime.process.files import write_atomically

MARK = "TALLY_SERVICE"
SAME_START_SECONDS = 2.0
LEFTOVER_SECONDS = 5.0
LOOK_EVERY_SECONDS = 0.02
Command = tuple[str, ...]


class Record(msgspec.Struct, frozen=True):
    """A started process; create_time (seconds since 1970) tells a reused pid from it."""

    pid: int
    create_time: float
    argv: Command
    ready: bool = False


def read_record(file: Path) -> Record | None:
    """The record in a file, None if there is none."""
    return msgspec.json.decode(file.read_bytes(), type=Record) if file.exists() else None


def write_record(file: Path, record: Record) -> None:
    """Write the record to the file atomically."""
    write_atomically(file, msgspec.json.encode(record))


def start_detached(argv: Command, environment: Mapping[str, str], log: Path) -> Record:
    """Start a process in its own session, with both outputs appended to `log` and no input.

    Files that it creates are readable by their owner only. Raises OSError if it cannot start.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # Append mode: after a log is truncated in place (logs.py) writing continues at its new end, not
    # after a hole.
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # Spawn, not Popen: the service outlives this process, so no object here may own it.
    with owner_only():
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=files, setsid=True)
    try:
        return Record(pid, psutil.Process(pid).create_time(), argv)
    except psutil.NoSuchProcess:
        return Record(pid, time.time(), argv)


def find_recorded_process(record: Record | None) -> psutil.Process | None:
    """The running process of a record, None if it ended and even if its pid was reused."""
    if record is None:
        return None
    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.create_time) < SAME_START_SECONDS
    except psutil.NoSuchProcess:
        return None
    return process if same and not has_ended(process) else None


def find_marked_processes(mark: str) -> list[psutil.Process]:
    """All live processes that were started for a service, children and orphans included."""
    found = []
    for process in psutil.process_iter():
        # It may have ended during the scan, or be another user's.
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            is_ours = process.pid != os.getpid() and process.environ().get(MARK) == mark
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_leftovers(mark: str) -> None:
    """Block until no process with the mark lives: SIGTERM, then SIGKILL to the remaining ones."""
    for end in (signal.SIGTERM, signal.SIGKILL):
        left = find_marked_processes(mark)
        for process in left:
            send(process, end)
        wait_until_ended(left, LEFTOVER_SECONDS)


def wait_until_ended(waited: Iterable[psutil.Process], seconds: float) -> None:
    """Return once none of the processes runs, orphaned zombies aside, or after these seconds."""
    deadline = time.monotonic() + seconds
    left = list(waited)
    while left and time.monotonic() < deadline:
        left = [process for process in left if not has_ended(process)]
        if left:
            time.sleep(LOOK_EVERY_SECONDS)


def has_ended(process: psutil.Process) -> bool:
    """Whether the process has ended; it is reaped if it is a child of this process."""
    try:
        # A zombie has ended: only its exit code has not been collected.
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return False
    except psutil.NoSuchProcess:
        return True
    _reap(process.pid)
    return True


def has_jvm(process: psutil.Process) -> bool:
    """Whether a JVM runs below the process."""
    try:
        children = process.children(recursive=True)
        return any(child.name() == "java" and not has_ended(child) for child in children)
    except psutil.NoSuchProcess:
        return False  # the process or a child ended during the scan


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send the signal to the process, if it still exists."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def reap_children() -> None:
    """Reap all ended children of this process."""
    while _reap(-1):
        pass


def _reap(pid: int) -> bool:
    """Collect the exit code of an ended child (-1: of any); returns whether there was one."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False
