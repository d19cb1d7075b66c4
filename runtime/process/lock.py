"""A lock on a folder that only one process may write: a second process is refused."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tally.errors import AlreadyRunning


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for this process, until the block or the process ends.

    Raises AlreadyRunning at once when another process holds it.

    The lock lies beside the folder, not inside: moving the folder away must not take the lock with
    it.
    """
    file = folder.with_name(f"{folder.name}.lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = file.read_text("utf-8").strip() or "?"
            raise AlreadyRunning(
                f"{folder}: held by process {holder}; stop that one first, or use another folder"
            ) from error
        # The file is not removed at the end: its next holder and a process that still has it open
        # would hold two locks of one name.
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
