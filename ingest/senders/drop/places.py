"""Folders by descriptor, so that an operation reaches the folder that was opened.

A user who may drop files may also replace a folder with a link between any two steps. A path is
looked up again at each step, and would then lead elsewhere; a descriptor stays with the folder that
was opened.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tally.errors import DropUnusable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def open_folder(root: Path, below: Path, *, is_made: bool = False) -> Iterator[int]:
    """Open a folder below the root, through no link, and yield its descriptor.

    With `is_made` missing folders are created, private to the owner; the first folder must belong
    to this user. Raises OSError, also for a link, and DropUnusable for another user's folder.
    """
    # Only the root may be a link: the user who runs the command names it.
    at = os.open(root, _FOLDER)
    try:
        for depth, name in enumerate(below.parts):
            if is_made:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
            if is_made and not depth and os.fstat(at).st_uid != os.geteuid():
                raise DropUnusable(f"{root / name}: is another user's; remove it")
        yield at
    finally:
        os.close(at)


def open_file(folder: int, name: str) -> int:
    """Open a file for reading; follows no link and waits for no pipe. Raises OSError."""
    return os.open(name, _FILE, dir_fd=folder)


def file_status(folder: int, name: str) -> os.stat_result:
    """The status of the file or link with this name. Raises OSError."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def is_free(folder: int, name: str) -> bool:
    """Whether the folder has no file with this name."""
    try:
        file_status(folder, name)
    except FileNotFoundError:
        return True
    return False


def move_back(filed: int, name: str, folder: int, old: str) -> None:
    """Give a file that was moved by mistake its old name again, unless that is taken by now."""
    os.link(name, old, src_dir_fd=filed, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(name, dir_fd=filed)
