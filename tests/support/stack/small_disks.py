"""File systems of a size of their own, filled to the last byte and emptied again.

Each is a tmpfs, which takes root (more exactly, the right to mount)."""

import errno
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

BALLAST = "ballast"
REFILL_SECONDS = 0.2


@contextmanager
def mounted(folder: Path, mebibytes: int) -> Iterator[Path]:
    """The folder as a disk of that size; unmounted at the end. Skips a test that may not mount."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a disk of a size of its own needs root: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily: a process of the test that is still ending may have a file open.
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def full(disks: Sequence[Path]) -> Iterator[None]:
    """Nothing can be written to these disks within the block: what is freed is filled again."""
    ended = threading.Event()

    def refill() -> None:
        while not ended.wait(REFILL_SECONDS):
            for disk in disks:
                fill(disk)

    for disk in disks:
        fill(disk)
    filling = threading.Thread(target=refill)
    filling.start()
    with ExitStack() as ending:
        for disk in disks:
            ending.callback((disk / BALLAST).unlink)
        ending.callback(filling.join)
        ending.callback(ended.set)
        yield


def fill(disk: Path) -> None:
    """Takes what is free on the disk, into one file."""
    with (disk / BALLAST).open("ab") as ballast:
        space = os.statvfs(disk)
        free = space.f_bavail * space.f_bsize
        try:
            if free:
                os.posix_fallocate(ballast.fileno(), ballast.tell(), free)
        except OSError as error:
            # Somebody else has taken it meanwhile.
            if error.errno != errno.ENOSPC:
                raise
