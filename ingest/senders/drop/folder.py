"""The folder into which files are dropped: finds complete files, and files them after sending.

FOLDER/traffic/axis_csv/sensor=ACCC1/monday.csv is filed as
FOLDER/done/2026-11-26T09-10Z/traffic/axis_csv/sensor=ACCC1/monday.csv, or below `refused`.
"""

import json
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from ingest.senders.drop.files import DroppedFile, file_state, open_file, open_folder
from runtime.process.files import write_atomically_in
from tally.errors import DropUnusable, FileChanged

DONE, REFUSED = "done", "refused"
# Endings of names under which copying programs write files that are not complete yet.
PARTIAL_SUFFIXES = (".part", ".filepart", ".tmp", ".crdownload")
_STAMP = "%Y-%m-%dT%H-%MZ"
# A file system takes names of 255 bytes, and the answer filed beside the file has a longer name.
_MAX_NAME_BYTES, _MAX_SUFFIX_BYTES = 200, 20


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
        found = FolderScan()

        def add_failure(error: OSError) -> None:
            path = Path(error.filename).relative_to(self.root)
            found.ignored[path] = f"cannot be read: {error.strerror}"

        for where, folders, files in os.walk(self.root, onerror=add_failure):
            folders[:] = [name for name in folders if self._is_looked_at(Path(where, name))]
            for name in [*folders, *files]:
                try:
                    self._add_path(Path(where, name), now, found)
                except OSError as error:
                    add_failure(error)
        found.settled.sort(key=lambda file: (file.state.modified_ns, file.relative))
        return found

    def archive(
        self, dropped: DroppedFile, where: str, answer: Mapping[str, Any] | None, now: float
    ) -> Path:
        """Move a file below `done` or `refused`, its answer beside it; returns the answer's path.

        The path is relative to the root. Raises FileChanged when it is no longer the file that was
        sent, and OSError.
        """
        stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP)
        below = Path(where, stamp, dropped.relative)
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
            with suppress(PermissionError), open_file(folder, name) as filed:
                os.fchmod(filed.fileno(), 0o600)
        return below.with_name(beside)

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

    def _is_looked_at(self, path: Path) -> bool:
        # Hidden files belong to file managers and network drives.
        archives = self.root / DONE, self.root / REFUSED
        return path not in archives and not path.name.startswith(".")

    def _add_path(self, path: Path, now: float, found: FolderScan) -> None:
        if not self._is_looked_at(path):
            return
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
            found.settled.append(DroppedFile(self.root, relative, file_state(status)))


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
