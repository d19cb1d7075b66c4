"""Digests as files: one file per name, never seen half written, and synced before it counts.

The folder comes from the settings. A record supplies only a name in it: the name must have the
shape of a digest's name, and no link below the folder is followed.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alerting.deliver.state.attempts import WebhookAnswer

# Each is reported once its step is done and before the next step begins.
WRITTEN, SYNCED, RENAMED, DURABLE = "written", "synced", "renamed", "kept"
FILE_STEPS = (WRITTEN, SYNCED, RENAMED, DURABLE)
_DONE = WebhookAnswer(status=201)
# As alerting/deliver/engine/digest.py builds it: a channel, a date, and a store encoded by quote().
_NAME = re.compile(
    r"(?P<channel>[A-Za-z0-9][A-Za-z0-9._-]{0,63})"
    r"/(?P<file>\d{4}-\d\d-\d\d_[A-Za-z0-9_.~%-]{1,200}\.json)",
    re.ASCII,
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def _ignore_step(_name: str) -> None:
    """Ignore the step that was reached."""


class DigestFiles:
    """Writes files below a folder; `reach` is called after each step (tests)."""

    def __init__(self, folder: Path, reach: Callable[[str], None] = _ignore_step) -> None:
        self._root = folder
        self._reach = reach

    def write(self, name: str, attempt: int, content: bytes) -> WebhookAnswer:
        """Write the file, replacing an older one: 201 once it is durable, otherwise the error.

        `attempt`: its number, which is stored before, so that no two processes share one.
        """
        matched = _NAME.fullmatch(name)
        if matched is None:
            error = f"{name!a}: not the name of a digest, as CHANNEL/DATE_STORE.json is"
            return WebhookAnswer(error=error[:200], is_refused=True)
        file = matched["file"]
        # Hidden, so that no reader takes it for a digest. One name per attempt: a process that was
        # thought to be dead may still write, and would truncate a file about to be renamed.
        arriving = f".{file}.{attempt}"
        try:
            with _open_channel(self._root, matched["channel"]) as folder:
                try:
                    self._write_file(folder, arriving, file, content)
                finally:
                    # On a full disk a partial file would use up the space of the next attempt.
                    _remove(folder, arriving)
        except OSError as error:
            return WebhookAnswer(error=f"{self._root / name}: {error.strerror}")
        return _DONE

    def _write_file(self, folder: int, arriving: str, file: str, content: bytes) -> None:
        # An entry of this name, which may be a link or a pipe, is removed and not opened.
        _remove(folder, arriving)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(arriving, flags, 0o666, dir_fd=folder), "wb") as opened:
            opened.write(content)
            opened.flush()
            self._reach(WRITTEN)
            # Before the rename, because the name may reach the disk ahead of the content.
            os.fsync(opened.fileno())
        self._reach(SYNCED)
        os.replace(arriving, file, src_dir_fd=folder, dst_dir_fd=folder)
        self._reach(RENAMED)
        os.fsync(folder)
        self._reach(DURABLE)
        # Partial files stay behind when an attempt is killed.
        for left in os.listdir(folder):
            if left.startswith(f".{file}."):
                _remove(folder, left)


@contextmanager
def _open_channel(root: Path, channel: str) -> Iterator[int]:
    """Descriptor of a channel's folder, which is created if missing.

    Raises OSError, also when the folder is a link.
    """
    if not root.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        _sync_folder(root.parent)
    # The root folder is named by the settings, so it may be a link.
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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
