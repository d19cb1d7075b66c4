"""The folder into which files are dropped: finds complete files, and files them after sending.

FOLDER/traffic/axis_csv/sensor=ACCC1/monday.csv is filed as
FOLDER/done/2026-11-26T09-10Z/traffic/axis_csv/sensor=ACCC1/monday.csv, or below `refused`.

A user who may drop files may also replace a folder with a link between any two steps. A path is
looked up again at each step, and would then lead elsewhere; so folders and files are reached by
descriptors, which stay with the folder that was opened.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from runtime.process.files import write_atomically_in
from tally.errors import DropUnusable, FileChanged

DONE, REFUSED = "done", "refused"
# Endings of names under which copying programs write files that are not complete yet.
PARTIAL_SUFFIXES = (".part", ".filepart", ".tmp", ".crdownload")
_STAMP = "%Y-%m-%dT%H-%MZ"
# A file system takes names of 255 bytes, and the answer filed beside the file has a longer name.
_MAX_NAME_BYTES, _MAX_SUFFIX_BYTES = 200, 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# Follows no link, and waits for no pipe.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
# What identifies a file's content in its status; a move changes the last of these, and only that.
_identify = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


@dataclass(frozen=True)
class DroppedFile:
    """A file as it was at the last look at the folder."""

    root: Path
    relative: Path
    status: os.stat_result

    @contextmanager
    def open_content(self) -> Iterator[BinaryIO]:
        """Open the file's content. Raises FileChanged when it is another file now, and OSError."""
        with open_folder(self.root, self.relative.parent) as folder:
            opened = _open_file(folder, self.relative.name)
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
            moved = os.lstat(name, dir_fd=filed)
            if _identify(moved)[:-1] != _identify(self.status)[:-1]:
                # It gets its name back, unless that is taken by now.
                os.link(name, old_name, src_dir_fd=filed, dst_dir_fd=folder, follow_symlinks=False)
                os.unlink(name, dir_fd=filed)
                raise self._change_error()

    def _compare(self, status: os.stat_result) -> None:
        if _identify(status) != _identify(self.status) or status.st_nlink != 1:
            raise self._change_error()

    def _change_error(self) -> FileChanged:
        return FileChanged(f"{self.relative}: it is still being written; sent once complete")


@dataclass
class FolderScan:
    """`settled` files are complete, oldest first; `ignored` ones are not sent, with the reason."""

    settled: list[DroppedFile] = field(default_factory=list)
    unsettled: list[Path] = field(default_factory=list)
    ignored: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropFolder:
    """A drop folder; a file is complete after `settled_seconds` seconds without a write."""

    root: Path
    settled_seconds: float

    def prepare(self) -> None:
        """Create `done` and `refused`, private to the owner. Raises DropUnusable with the fix."""
        for name in (DONE, REFUSED):
            place = self.root / name
            try:
                if place.is_symlink():
                    raise DropUnusable(f"{place}: is a link; remove it, files are kept inside")
                with open_folder(self.root, Path(name), is_made=True) as folder:
                    os.fchmod(folder, 0o700)
            except OSError as error:
                raise DropUnusable(
                    f"{place}: {error.strerror}; who runs `tally drop` must own this folder, and"
                    f" be allowed to write in {self.root}"
                ) from error

    def scan(self, now: float) -> FolderScan:
        """Return what is in the folder at `now` (seconds since 1970)."""
        found = FolderScan()

        def add_failure(error: OSError) -> None:
            path = Path(error.filename).relative_to(self.root)
            found.ignored[path] = f"cannot be read: {error.strerror}"

        for where, folders, files in os.walk(self.root, onerror=add_failure):
            folders[:] = [name for name in folders if self._is_looked_at(Path(where, name))]
            for path in (Path(where, name) for name in [*folders, *files]):
                try:
                    if self._is_looked_at(path):
                        self._add_path(path, now, found)
                except OSError as error:
                    add_failure(error)
        found.settled.sort(key=lambda file: (file.status.st_mtime_ns, file.relative))
        return found

    def archive(self, dropped: DroppedFile, where: str, answer: object) -> Path:
        """Move a file and its answer; returns the latter's path. Raises FileChanged, OSError."""
        below = Path(where, datetime.now(UTC).strftime(_STAMP), dropped.relative)
        with open_folder(self.root, below.parent, is_made=True) as folder:
            name, beside = _free_names(folder, below)
            if answer is not None:
                # The answer is written first: a refused file without its reason is of no use.
                write_atomically_in(folder, beside, json.dumps(answer, indent=1))
            try:
                dropped.move(folder, name)
            except (FileChanged, OSError):
                with suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=folder)
                raise
            # The mode of another user's file cannot be changed; the folder is private anyway.
            with suppress(PermissionError), _open_file(folder, name) as filed:
                os.fchmod(filed.fileno(), 0o600)
        return below.with_name(beside)

    def delete_expired(self, kept_seconds: float, now: float) -> tuple[int, list[str]]:
        """Delete what was filed `kept_seconds` before `now`; how many, and lines about failures."""
        # The age is read from the folder's name: a backup that touches a file must not extend it.
        gone, problems = 0, list[str]()
        for where in (DONE, REFUSED):
            with open_folder(self.root, Path(where)) as place:
                for name in sorted(os.listdir(place)):
                    filed_at = _archive_time(name)
                    if filed_at is None or filed_at + kept_seconds > now:
                        continue
                    try:
                        walked = os.fwalk(name, dir_fd=place)
                        files = sum(len(file_names) for _, _, file_names, _ in walked)
                        shutil.rmtree(name, dir_fd=place)
                        gone += files
                    except OSError as error:
                        folder = self.root / where / name
                        problems.append(f"{folder}: its time is over, delete it: {error}")
        return gone, problems

    def _is_looked_at(self, path: Path) -> bool:
        # Hidden files belong to file managers and network drives.
        archives = self.root / DONE, self.root / REFUSED
        return path not in archives and not path.name.startswith(".")

    def _add_path(self, path: Path, now: float, found: FolderScan) -> None:
        status, relative = os.lstat(path), path.relative_to(self.root)
        if stat.S_ISDIR(status.st_mode):
            return
        if reason := _ignore_reason(path, status):
            found.ignored[relative] = reason
        # This compares the time of change, which no copying program sets; it may lie in the future
        # after the clock was set back.
        elif abs(now - status.st_ctime) < self.settled_seconds:
            found.unsettled.append(relative)
        else:
            found.settled.append(DroppedFile(self.root, relative, status))


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


def _open_file(folder: int, name: str) -> BinaryIO:
    return open(os.open(name, _FILE, dir_fd=folder), "rb")


def _free_names(folder: int, target: Path) -> tuple[str, str]:
    """A name for the file and one for its answer; a later export may have the same name."""
    ending = "refused" if target.parts[0] == REFUSED else "rejected"
    stem = os.fsdecode(os.fsencode(target.stem)[:_MAX_NAME_BYTES])
    suffix = os.fsdecode(os.fsencode(target.suffix)[:_MAX_SUFFIX_BYTES])
    names = (f"{stem}{f'-{number}' if number > 1 else ''}{suffix}" for number in count(1))
    pairs = ((name, f"{name}.{ending}.json") for name in names)
    present = {*os.listdir(folder)}
    return next(pair for pair in pairs if present.isdisjoint(pair))


def _ignore_reason(path: Path, status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "a link is not followed; put the file itself here"
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if status.st_nlink != 1:
        return "it has another name elsewhere (a hard link); put a copy of the file here"
    if path.suffix.lower() in PARTIAL_SUFFIXES:
        return f"a name that ends in {path.suffix} is that of a file which is still copied"
    return None


def _archive_time(name: str) -> float | None:
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
