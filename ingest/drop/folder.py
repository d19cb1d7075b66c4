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

from ingest.drop.places import (
    is_free,
    move_back,
    open_file,
    opened_folder,
    state_in,
)
from runtime.whole_file import keep_whole_in
from tally.errors import DropUnusable, FileChanged

DONE, REFUSED = "done", "refused"
# Names under which copying programs write what is not whole yet.
UNDER_WAY = (".part", ".filepart", ".tmp", ".crdownload")
_STAMP = "%Y-%m-%dT%H-%MZ"
# A file system takes 255 bytes, and the answer beside has a longer name.
_MOST_NAME_BYTES, _MOST_SUFFIX_BYTES = 200, 20
# Of a file's state what a move leaves as it was: all but the time of change.
_UNMOVED = 4


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

    root: Path
    relative: Path
    state: FileState

    @property
    def path(self) -> Path:
        """Where it lay."""
        return self.root / self.relative

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
        with opened_folder(self.root, self.relative.parent) as folder:
            # No link that has taken its place, and no pipe that lets us wait.
            opened = open_file(folder, self.relative.name)
        with open(opened, "rb") as file:
            self._compare(os.fstat(file.fileno()))
            yield file

    def check(self) -> None:
        """Compares it with the one that was looked at. Raises FileChanged, OSError."""
        with opened_folder(self.root, self.relative.parent) as folder:
            self._compare(state_in(folder, self.relative.name))

    def move(self, filed: int, name: str) -> None:
        """Moves it to a folder, by its descriptor, under a name. Raises FileChanged, OSError."""
        own = self.relative.name
        with opened_folder(self.root, self.relative.parent) as folder:
            self._compare(state_in(folder, own))
            os.rename(own, name, src_dir_fd=folder, dst_dir_fd=filed)
            # In its own folder another one may have taken its name since.
            moved = _state(state_in(filed, name))
            if moved[:_UNMOVED] != self.state[:_UNMOVED]:
                move_back(filed, name, folder, own)
                raise self._changed()

    def _compare(self, found: os.stat_result) -> None:
        if _state(found) != self.state or found.st_nlink != 1:
            raise self._changed()

    def _changed(self) -> FileChanged:
        return FileChanged(f"{self.relative}: somebody still writes to it; it is sent when not")


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
                if place.is_symlink():
                    raise DropUnusable(f"{place}: is a link; remove it, files are kept inside")
                with opened_folder(self.root, Path(name), is_made=True) as folder:
                    os.fchmod(folder, 0o700)
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
        below = Path(where, stamp, dropped.relative)
        with opened_folder(self.root, below.parent, is_made=True) as folder:
            name = _free(folder, below, where)
            beside = _beside(name, where)
            if told is not None:
                # Written first: a file whose reason is lost would be no use.
                keep_whole_in(folder, beside, json.dumps(told, indent=1))
            try:
                dropped.move(folder, name)
            except (FileChanged, OSError):
                with suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=folder)
                raise
            # Another user's file cannot be changed, and nobody else gets into the folder.
            with suppress(PermissionError), open(open_file(folder, name), "rb") as filed:
                os.fchmod(filed.fileno(), 0o600)
        return self.root / below.with_name(name)

    def clear(self, kept_seconds: float, now: float) -> tuple[int, list[str]]:
        """Deletes what was filed so long ago; how many files, and what could not be deleted."""
        # By the folder's name: a backup that touches a file must not prolong its time.
        gone, kept = 0, list[str]()
        for where in (DONE, REFUSED):
            with opened_folder(self.root, Path(where)) as place:
                for name in sorted(os.listdir(place)):
                    filed_at = _filed_at(name)
                    if filed_at is None or filed_at + kept_seconds > now:
                        continue
                    try:
                        walked = os.fwalk(name, dir_fd=place)
                        files = sum(len(found) for _, _, found, _ in walked)
                        shutil.rmtree(name, dir_fd=place)
                        gone += files
                    except OSError as error:
                        folder = self.root / where / name
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
            found.settled.append(DroppedFile(self.root, self._below(path), _state(told)))

    def _is_for_files(self, path: Path) -> bool:
        # What is hidden is of file managers and network drives.
        own = self.root / DONE, self.root / REFUSED
        return path not in own and not path.name.startswith(".")

    def _below(self, path: str | Path) -> Path:
        return Path(path).relative_to(self.root)


def beside_of(filed: Path, where: str) -> Path:
    """The file beside a filed one that says what was wrong."""
    return filed.with_name(_beside(filed.name, where))


def _beside(name: str, where: str) -> str:
    return f"{name}.{'refused' if where == REFUSED else 'rejected'}.json"


def _free(folder: int, wanted: Path, where: str) -> str:
    # Tomorrow's export may have the same name.
    stem = os.fsdecode(os.fsencode(wanted.stem)[:_MOST_NAME_BYTES])
    suffix = os.fsdecode(os.fsencode(wanted.suffix)[:_MOST_SUFFIX_BYTES])
    free, number = stem + suffix, 1
    while not (is_free(folder, free) and is_free(folder, _beside(free, where))):
        number += 1
        free = f"{stem}-{number}{suffix}"
    return free


def _not_to_send(path: Path, told: os.stat_result) -> str | None:
    if stat.S_ISLNK(told.st_mode):
        return "a link is not followed; put the file itself here"
    if not stat.S_ISREG(told.st_mode):
        return "is no regular file"
    if told.st_nlink != 1:
        return "it has another name elsewhere (a hard link); put a copy of the file here"
    if path.suffix.lower() in UNDER_WAY:
        return f"a name that ends in {path.suffix} is that of a file which is still copied"
    return None


def _state(told: os.stat_result) -> FileState:
    return FileState(told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)


def _filed_at(name: str) -> float | None:
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
