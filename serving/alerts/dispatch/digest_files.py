"""Digests as files: each once by its name, whole for whoever reads it, and on the disk when its
writing counts as done.

The folder comes from the settings. What a record says is a name in it and nothing more: it has the
one shape that names of digests have, and no link below the folder is followed.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tally.alerts.delivery.attempts import WebhookAnswer

# What has been done when each is told of, and the next step has not.
WRITTEN, SYNCED, RENAMED, KEPT = "written", "synced", "renamed", "kept"
FILE_MOMENTS = (WRITTEN, SYNCED, RENAMED, KEPT)
_DONE = WebhookAnswer(status=201)
# As tally/alerts/delivery/digest.py makes them: a channel, a date, and a store as quote() has it.
_NAME = re.compile(
    r"(?P<channel>[A-Za-z0-9][A-Za-z0-9._-]{0,63})"
    r"/(?P<file>\d{4}-\d\d-\d\d_[A-Za-z0-9_.~%-]{1,200}\.json)",
    re.ASCII,
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def _nobody(_name: str) -> None:
    """Of no step anybody is told."""


class DigestFiles:
    """Writes files below a folder; `reach` is told of each step (tests)."""

    def __init__(self, folder: Path, reach: Callable[[str], None] = _nobody) -> None:
        self._folder = folder
        self._reach = reach

    def write(self, name: str, attempt: int, content: bytes) -> WebhookAnswer:
        """201 once the file is there for good, whatever was there; else why it may not be.

        `attempt`: its number, stored before: no two processes have the same one.
        """
        named = _NAME.fullmatch(name)
        if named is None:
            error = f"{name!a}: not the name of a digest, as CHANNEL/DATE_STORE.json is"
            return WebhookAnswer(error=error[:200], is_refused=True)
        file = named["file"]
        # Hidden, so that nobody takes it for a digest. Its own: who was thought to be dead may
        # still write, and would cut off what is about to get its name.
        arriving = f".{file}.{attempt}"
        try:
            with _opened(self._folder, named["channel"]) as folder:
                try:
                    self._keep(folder, arriving, file, content)
                finally:
                    # On a full disk what is half there would take the place of the next attempt.
                    _remove(folder, arriving)
        except OSError as error:
            return WebhookAnswer(error=f"{self._folder / name}: {error.strerror}")
        return _DONE

    def _keep(self, folder: int, arriving: str, file: str, content: bytes) -> None:
        # What lies there under this name, a link or a pipe too, is removed and not opened.
        _remove(folder, arriving)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(arriving, flags, 0o666, dir_fd=folder), "wb") as opened:
            opened.write(content)
            opened.flush()
            self._reach(WRITTEN)
            # Before it has its name, which may reach the disk ahead of what it names.
            os.fsync(opened.fileno())
        self._reach(SYNCED)
        os.replace(arriving, file, src_dir_fd=folder, dst_dir_fd=folder)
        self._reach(RENAMED)
        os.fsync(folder)
        self._reach(KEPT)
        # Of attempts that were killed.
        for left in os.listdir(folder):
            if left.startswith(f".{file}."):
                _remove(folder, left)


@contextmanager
def _opened(root: Path, channel: str) -> Iterator[int]:
    """Descriptor of a channel's folder, made if it is not there. Raises OSError, of a link too."""
    if not root.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        _sync(root.parent)
    # The folder itself is named by the settings, and may be a link.
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(FileExistsError):
            os.mkdir(channel, dir_fd=top)
            os.fsync(top)
        folder = os.open(channel, _FOLDER, dir_fd=top)
    finally:
        os.close(top)
    try:
        yield folder
    finally:
        os.close(folder)


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
