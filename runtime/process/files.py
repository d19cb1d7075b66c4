"""Files of a process: the code's folder, atomic replacement, and locks.

Readers of a file that is replaced find the old or the new content, even after a kill.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tally.errors import AlreadyRunning

# The code's folder, from which commands are found independent of the working folder.
REPOSITORY = Path(__file__).parents[2]


def write_atomically(file: Path, content: str | bytes, *, is_durable: bool = False) -> None:
    """Replace the file's content (text as UTF-8); concurrent readers find the old content.

    is_durable: wait until the content is on the disk and not only in a cache; without it a power
    failure may lose it. Raises OSError when its folder does not exist, or cannot be written.
    """
    arriving = file.with_name(f"{file.name}.arriving")
    try:
        with arriving.open("wb") as opened:
            _write(opened, content, is_durable)
        arriving.rename(file)
    except OSError:
        # On a full disk a half-written file would take the space of the next try.
        with suppress(OSError):
            arriving.unlink()
        raise


def write_atomically_in(folder: int, name: str, content: str | bytes) -> None:
    """As write_atomically(), in a folder given by its descriptor; only the owner may read the file.

    An existing file or link under the temporary name is removed and not opened.
    """
    arriving = f"{name}.arriving"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with suppress(FileNotFoundError):
        os.unlink(arriving, dir_fd=folder)
    try:
        with open(os.open(arriving, flags, 0o600, dir_fd=folder), "wb") as opened:
            _write(opened, content, is_durable=False)
        os.rename(arriving, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(arriving, dir_fd=folder)
        raise


def _write(opened: BinaryIO, content: str | bytes, is_durable: bool) -> None:
    opened.write(content.encode() if isinstance(content, str) else content)
    # Synced before the rename: the name may reach the disk ahead of the content, and a power
    # failure then leaves an empty file.
    if is_durable:
        opened.flush()
        os.fsync(opened.fileno())


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for this process, until the block or the process ends.

    Raises AlreadyRunning at once when another process holds it.
    """
    # The lock lies beside the folder, not inside: moving the folder must not move the lock.
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


def python_path(environment: Mapping[str, str]) -> str:
    """PYTHONPATH of a child process: this code ahead of the entries of the environment."""
    parts = str(REPOSITORY), environment.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, parts))
