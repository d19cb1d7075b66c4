"""Digests as files: each once by its name, whole for whoever reads it, and on the disk when its
writing counts as done."""

import os
from collections.abc import Callable
from pathlib import Path

from tally.alerts.delivery.attempts import WebhookAnswer

# What has been done when each is told of, and the next step has not.
WRITTEN, SYNCED, RENAMED, KEPT = "written", "synced", "renamed", "kept"
FILE_MOMENTS = (WRITTEN, SYNCED, RENAMED, KEPT)
_DONE = WebhookAnswer(status=201)


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
        file = self._folder / name
        # Hidden, so that nobody takes it for a digest. Its own: who was thought to be dead may
        # still write, and would cut off what is about to get its name.
        arriving = file.with_name(f".{file.name}.{attempt}")
        try:
            _make_folder(file.parent)
            self._keep(arriving, file, content)
        except OSError as error:
            return WebhookAnswer(error=f"{file}: {error.strerror}")
        return _DONE

    def _keep(self, arriving: Path, file: Path, content: bytes) -> None:
        with arriving.open("wb") as opened:
            opened.write(content)
            opened.flush()
            self._reach(WRITTEN)
            # Before it has its name, which may reach the disk ahead of what it names.
            os.fsync(opened.fileno())
        self._reach(SYNCED)
        arriving.replace(file)
        self._reach(RENAMED)
        _sync(file.parent)
        self._reach(KEPT)
        # Of attempts that were killed.
        for left in file.parent.glob(f".{file.name}.*"):
            left.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
