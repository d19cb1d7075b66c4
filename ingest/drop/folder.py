"""The folder into which files are dropped: which of them are whole, and where they are filed.

FOLDER/traffic/axis_csv/sensor=ACCC1/monday.csv is filed as
FOLDER/done/2026-11-26T09-10Z/traffic/axis_csv/sensor=ACCC1/monday.csv, or below `refused`.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from runtime.whole_file import keep_whole
from tally.errors import DropUnusable, FileChanged

DONE, REFUSED = "done", "refused"
# Names under which copying programs write what is not whole yet.
UNDER_WAY = (".part", ".filepart", ".tmp", ".crdownload")
_STAMP = "%Y-%m-%dT%H-%MZ"
# A file system takes 255 bytes, and the answer beside has a longer name.
_MOST_NAME_BYTES, _MOST_SUFFIX_BYTES = 200, 20


class FileState(NamedTuple):
    """By which a file is known again: other numbers mean that somebody has written to it."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True)
class DroppedFile:
    """A file as it was when the folder was looked at."""

    path: Path
    relative: Path
    state: FileState

    @property
    def size(self) -> int:
        """Bytes."""
        return self.state.size

    @property
    def modified_at(self) -> datetime:
        """When somebody wrote to it last (UTC), by whoever copied it with its time."""
        return datetime.fromtimestamp(self.state.modified_ns // 1_000_000_000, UTC)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Its content. Raises FileChanged when it is another one now, and OSError."""
        # No link that has taken its place, and no pipe that lets us wait.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(self.path, flags), "rb") as file:
            self._compare(os.fstat(file.fileno()))
            yield file

    def check(self) -> None:
        """Compares it with the one that was looked at. Raises FileChanged, OSError."""
        self._compare(os.lstat(self.path))

    def _compare(self, found: os.stat_result) -> None:
        if _state(found) != self.state:
            raise FileChanged(f"{self.relative}: somebody still writes to it; it is sent when not")


@dataclass
class Look:
    """What lies in the folder: files that are whole, the oldest first, and all else.

    `unsettled` may still be written; `passed` is none to send, with the reason.
    """

    settled: list[DroppedFile] = field(default_factory=list)
    unsettled: list[Path] = field(default_factory=list)
    passed: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropFolder:
    """One folder, and for how long nobody must have written to a file before it is taken."""

    root: Path
    settled_seconds: float

    def prepare(self) -> None:
        """Makes `done` and `refused`, its owner's alone. Raises DropUnusable with the fix."""
        for name in (DONE, REFUSED):
            place = self.root / name
            try:
                place.mkdir(mode=0o700, exist_ok=True)
                if place.is_symlink():
                    raise DropUnusable(f"{place}: is a link; remove it, files are kept inside")
                place.chmod(0o700)
            except OSError as error:
                raise DropUnusable(
                    f"{place}: {error.strerror}; who runs `tally drop` must own this folder, and"
                    f" be allowed to write in {self.root}"
                ) from error

    def look(self, now: float) -> Look:
        """All that lies there now (seconds since 1970)."""
        found = Look()

        def failed(error: OSError) -> None:
            found.passed[self._below(error.filename)] = f"cannot be read: {error.strerror}"

        for where, folders, files in os.walk(self.root, onerror=failed):
            place = Path(where)
            for name in [*folders, *files]:
                self._note(place / name, now, found)
            folders[:] = [name for name in folders if self._is_for_files(place / name)]
        found.settled.sort(key=lambda one: (one.state.modified_ns, one.path))
        return found

    def file(
        self, dropped: DroppedFile, where: str, told: Mapping[str, Any] | None, now: float
    ) -> Path:
        """Moves a file below `done` or `refused`, what was told of it beside; where it is now.

        Raises FileChanged when it is not the one any more that was sent, and OSError.
        """
        stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP)
        target = _free(self.root / where / stamp / dropped.relative, where)
        self._make_private(target.parent)
        beside = beside_of(target, where)
        if told is not None:
            # Written first: a file whose reason is lost would be no use.
            keep_whole(beside, json.dumps(told, indent=1))
            beside.chmod(0o600)
        try:
            dropped.check()
            dropped.path.rename(target)
        except (FileChanged, OSError):
            beside.unlink(missing_ok=True)
            raise
        # Another user's file cannot be changed, and nobody else gets into the folder.
        with suppress(PermissionError):
            target.chmod(0o600)
        return target

    def clear(self, kept_seconds: float, now: float) -> tuple[int, list[str]]:
        """Deletes what was filed so long ago; how many files, and what could not be deleted."""
        # By the folder's name: a backup that touches a file must not prolong its time.
        gone, kept = 0, list[str]()
        for name in (DONE, REFUSED):
            for folder in sorted((self.root / name).iterdir()):
                filed_at = _filed_at(folder)
                if filed_at is None or filed_at + kept_seconds > now:
                    continue
                try:
                    files = sum(len(names) for _, _, names in os.walk(folder))
                    shutil.rmtree(folder)
                    gone += files
                except OSError as error:
                    kept.append(f"{folder}: its time is over, delete it: {error}")
        return gone, kept

    def _note(self, path: Path, now: float, found: Look) -> None:
        if not self._is_for_files(path):
            return
        try:
            told = os.lstat(path)
        except OSError as error:
            found.passed[self._below(path)] = f"cannot be read: {error.strerror}"
            return
        if stat.S_ISDIR(told.st_mode):
            return
        if reason := _not_to_send(path, told):
            found.passed[self._below(path)] = reason
        # Of the time of change, which no copying program sets; it may lie ahead of a clock that was
        # put back.
        elif abs(now - told.st_ctime) < self.settled_seconds:
            found.unsettled.append(self._below(path))
        else:
            found.settled.append(DroppedFile(path, self._below(path), _state(told)))

    def _is_for_files(self, path: Path) -> bool:
        # What is hidden is of file managers and network drives.
        own = self.root / DONE, self.root / REFUSED
        return path not in own and not path.name.startswith(".")

    def _below(self, path: str | Path) -> Path:
        return Path(path).relative_to(self.root)

    def _make_private(self, folder: Path) -> None:
        for one in (*reversed(folder.relative_to(self.root).parents), folder):
            (self.root / one).mkdir(mode=0o700, exist_ok=True)


def beside_of(filed: Path, where: str) -> Path:
    """The file beside a filed one that says what was wrong."""
    return filed.with_name(f"{filed.name}.{'refused' if where == REFUSED else 'rejected'}.json")


def _free(wanted: Path, where: str) -> Path:
    # Tomorrow's export may have the same name.
    stem = os.fsdecode(os.fsencode(wanted.stem)[:_MOST_NAME_BYTES])
    suffix = os.fsdecode(os.fsencode(wanted.suffix)[:_MOST_SUFFIX_BYTES])
    free, number = wanted.with_name(stem + suffix), 1
    while os.path.lexists(free) or os.path.lexists(beside_of(free, where)):
        number += 1
        free = wanted.with_name(f"{stem}-{number}{suffix}")
    return free


def _not_to_send(path: Path, told: os.stat_result) -> str | None:
    if stat.S_ISLNK(told.st_mode):
        return "a link is not followed; put the file itself here"
    if not stat.S_ISREG(told.st_mode):
        return "is no regular file"
    if path.suffix.lower() in UNDER_WAY:
        return f"a name that ends in {path.suffix} is that of a file which is still copied"
    return None


def _state(told: os.stat_result) -> FileState:
    return FileState(told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)


def _filed_at(folder: Path) -> float | None:
    try:
        return datetime.strptime(folder.name, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
