"""The folder into which files are dropped: finds complete files, and files them after sending.

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

from ingest.senders.drop.places import file_status, is_free, move_back, open_file, open_folder
from runtime.process.files import write_atomically_in
from tally.errors import DropUnusable, FileChanged

DONE, REFUSED = "done", "refused"
# Endings of names under which copying programs write files that are not complete yet.
PARTIAL_SUFFIXES = (".part", ".filepart", ".tmp", ".crdownload")
_STAMP = "%Y-%m-%dT%H-%MZ"
# A file system takes names of 255 bytes, and the answer filed beside the file has a longer name.
_MAX_NAME_BYTES, _MAX_SUFFIX_BYTES = 200, 20
# How many fields of a file's state a move leaves unchanged: all but the time of change.
_MOVE_STABLE_FIELDS = 4


class FileState(NamedTuple):
    """Identifies a file's content: other numbers mean that the file was written to since."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True)
class DroppedFile:
    """A file as it was at the last look at the folder."""

    root: Path
    relative: Path
    state: FileState

    @property
    def path(self) -> Path:
        """The path at which the file lay."""
        return self.root / self.relative

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
            # This follows no link that has taken the file's place, and waits for no pipe.
            opened = open_file(folder, self.relative.name)
        with open(opened, "rb") as file:
            self._compare(os.fstat(file.fileno()))
            yield file

    def check(self) -> None:
        """Compare the file with its state at the last look. Raises FileChanged, OSError."""
        with open_folder(self.root, self.relative.parent) as folder:
            self._compare(file_status(folder, self.relative.name))

    def move(self, filed: int, name: str) -> None:
        """Move the file into a folder, given by its descriptor. Raises FileChanged, OSError."""
        own = self.relative.name
        with open_folder(self.root, self.relative.parent) as folder:
            self._compare(file_status(folder, own))
            os.rename(own, name, src_dir_fd=folder, dst_dir_fd=filed)
            # Another file may have taken this one's name between the check and the move.
            moved = _state(file_status(filed, name))
            if moved[:_MOVE_STABLE_FIELDS] != self.state[:_MOVE_STABLE_FIELDS]:
                move_back(filed, name, folder, own)
                raise self._change_error()

    def _compare(self, status: os.stat_result) -> None:
        if _state(status) != self.state or status.st_nlink != 1:
            raise self._change_error()

    def _change_error(self) -> FileChanged:
        return FileChanged(f"{self.relative}: it is still being written; sent once complete")


@dataclass
class FolderScan:
    """The files in the folder: `settled` ones are complete, the oldest first.

    `unsettled` files may still be written to; `ignored` has files that are not sent, with the
    reason.
    """

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
        look = FolderScan()

        def add_failure(error: OSError) -> None:
            look.ignored[self._relative(error.filename)] = f"cannot be read: {error.strerror}"

        for where, folders, files in os.walk(self.root, onerror=add_failure):
            place = Path(where)
            for name in [*folders, *files]:
                self._add_path(place / name, now, look)
            folders[:] = [name for name in folders if self._is_for_files(place / name)]
        look.settled.sort(key=lambda file: (file.state.modified_ns, file.path))
        return look

    def archive(
        self, dropped: DroppedFile, where: str, answer: Mapping[str, Any] | None, now: float
    ) -> Path:
        """Move a file below `done` or `refused`, its answer beside it; returns its new path.

        Raises FileChanged when it is no longer the file that was sent, and OSError.
        """
        stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP)
        below = Path(where, stamp, dropped.relative)
        with open_folder(self.root, below.parent, is_made=True) as folder:
            filed_name = _free_name(folder, below, where)
            beside = _answer_name(filed_name, where)
            if answer is not None:
                # The answer is written first: a refused file without its reason is of no use.
                write_atomically_in(folder, beside, json.dumps(answer, indent=1))
            try:
                dropped.move(folder, filed_name)
            except (FileChanged, OSError):
                with suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=folder)
                raise
            # The mode of another user's file cannot be changed; the folder is private anyway.
            with suppress(PermissionError), open(open_file(folder, filed_name), "rb") as filed:
                os.fchmod(filed.fileno(), 0o600)
        return self.root / below.with_name(filed_name)

    def delete_expired(self, kept_seconds: float, now: float) -> tuple[int, list[str]]:
        """Delete files that were filed at least `kept_seconds` seconds before `now`.

        Returns how many were deleted, and a line about each folder that could not be.
        """
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

    def _add_path(self, path: Path, now: float, look: FolderScan) -> None:
        if not self._is_for_files(path):
            return
        try:
            status = os.lstat(path)
        except OSError as error:
            look.ignored[self._relative(path)] = f"cannot be read: {error.strerror}"
            return
        if stat.S_ISDIR(status.st_mode):
            return
        if reason := _ignore_reason(path, status):
            look.ignored[self._relative(path)] = reason
        # This compares the time of change, which no copying program sets; it may lie in the future
        # after the clock was set back.
        elif abs(now - status.st_ctime) < self.settled_seconds:
            look.unsettled.append(self._relative(path))
        else:
            look.settled.append(DroppedFile(self.root, self._relative(path), _state(status)))

    def _is_for_files(self, path: Path) -> bool:
        # Hidden files belong to file managers and network drives.
        own = self.root / DONE, self.root / REFUSED
        return path not in own and not path.name.startswith(".")

    def _relative(self, path: str | Path) -> Path:
        return Path(path).relative_to(self.root)


def answer_path(filed: Path, where: str) -> Path:
    """The file beside a filed one that says what was wrong."""
    return filed.with_name(_answer_name(filed.name, where))


def _answer_name(name: str, where: str) -> str:
    return f"{name}.{'refused' if where == REFUSED else 'rejected'}.json"


def _free_name(folder: int, wanted: Path, where: str) -> str:
    # A later export may have the same name.
    stem = os.fsdecode(os.fsencode(wanted.stem)[:_MAX_NAME_BYTES])
    suffix = os.fsdecode(os.fsencode(wanted.suffix)[:_MAX_SUFFIX_BYTES])
    free, number = stem + suffix, 1
    while not (is_free(folder, free) and is_free(folder, _answer_name(free, where))):
        number += 1
        free = f"{stem}-{number}{suffix}"
    return free


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


def _state(status: os.stat_result) -> FileState:
    return FileState(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _archive_time(name: str) -> float | None:
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
