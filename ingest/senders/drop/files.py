"""Folders and files by descriptor, so that an operation reaches the folder that was opened.

A user who may drop files may also replace a folder with a link between any two steps. A path is
looked up again at each step, and would then lead elsewhere; a descriptor stays with the folder that
was opened.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tally.errors import DropUnusable, FileChanged

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# Follows no link, and waits for no pipe.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class FileState(NamedTuple):
    """Identifies a file's content: other numbers mean that the file was written to since."""

    device: int
    inode: int
    size: int
    modified_ns: int
    # A move alone changes this time, and none of the other fields.
    changed_ns: int


@dataclass(frozen=True)
class DroppedFile:
    """A file as it was at the last look at the folder."""

    root: Path
    relative: Path
    state: FileState

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.state.size

    @property
    def modified_at(self) -> datetime:
        """The last modification (UTC); copying programs may keep the time of the original."""
        return datetime.fromtimestamp(self.state.modified_ns // 1_000_000_000, UTC)

    @contextmanager
    def open_content(self) -> Iterator[BinaryIO]:
        """Open the file's content. Raises FileChanged when it is another file now, and OSError."""
        with open_folder(self.root, self.relative.parent) as folder:
            opened = open_file(folder, self.relative.name)
        with opened as file:
            self._compare(os.fstat(file.fileno()))
            yield file

    def check(self) -> None:
        """Compare the file with its state at the last look. Raises FileChanged, OSError."""
        with open_folder(self.root, self.relative.parent) as folder:
            self._compare(os.lstat(self.relative.name, dir_fd=folder))

    def move(self, filed: int, name: str) -> None:
        """Move the file into a folder, given by its descriptor. Raises FileChanged, OSError."""
        old_name = self.relative.name
        with open_folder(self.root, self.relative.parent) as folder:
            self._compare(os.lstat(old_name, dir_fd=folder))
            os.rename(old_name, name, src_dir_fd=folder, dst_dir_fd=filed)
            # Another file may have taken this one's name between the check and the move.
            moved = file_state(os.lstat(name, dir_fd=filed))
            if moved[:-1] != self.state[:-1]:
                # It gets its name back, unless that is taken by now.
                os.link(name, old_name, src_dir_fd=filed, dst_dir_fd=folder, follow_symlinks=False)
                os.unlink(name, dir_fd=filed)
                raise self._change_error()

    def _compare(self, status: os.stat_result) -> None:
        if file_state(status) != self.state or status.st_nlink != 1:
            raise self._change_error()

    def _change_error(self) -> FileChanged:
        return FileChanged(f"{self.relative}: it is still being written; sent once complete")


def file_state(status: os.stat_result) -> FileState:
    """The numbers of a status that identify a file's content."""
    return FileState(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


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


def open_file(folder: int, name: str) -> BinaryIO:
    """Open a file for reading; follows no link and waits for no pipe. Raises OSError."""
    return open(os.open(name, _FILE, dir_fd=folder), "rb")
