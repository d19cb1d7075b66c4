"""Folders by descriptor: what is done in one is done there, whatever takes its name meanwhile.

Whoever may drop files may also exchange a folder for a link between any two steps. A path is
looked up anew at each step, and would lead elsewhere; a descriptor is of the folder that was
opened.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tally.errors import DropUnusable

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def opened_folder(root: Path, below: Path, *, is_made: bool = False) -> Iterator[int]:
    """Descriptor of a folder below the root, reached through no link.

    `is_made`: folders that are not there are made, their owner's alone; the first of them is to be
    ours. Raises OSError, of a link in its place too, and DropUnusable for a folder of others.
    """
    # The root itself is named by who runs the command.
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
    """Descriptor of a file to read: no link is followed, and no pipe waited for. Raises OSError."""
    return os.open(name, _FILE, dir_fd=folder)


def state_in(folder: int, name: str) -> os.stat_result:
    """What has the name there, a link itself. Raises OSError."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def is_free(folder: int, name: str) -> bool:
    """Whether nothing has the name there."""
    try:
        state_in(folder, name)
    except FileNotFoundError:
        return True
    return False


def move_back(filed: int, name: str, folder: int, old: str) -> None:
    """A file that was moved by mistake gets its name again, if nothing has it by now."""
    os.link(name, old, src_dir_fd=filed, dst_dir_fd=folder, follow_symlinks=False)
    os.unlink(name, dir_fd=filed)
