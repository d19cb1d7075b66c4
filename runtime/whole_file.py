"""A file that is there whole or as it was before, whoever reads it and whenever we are killed."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def keep_whole(file: Path, content: str | bytes, *, is_durable: bool = False) -> None:
    """The file has this content (text as UTF-8); who reads meanwhile finds the old one.

    is_durable: it is on the disk then and not in a cache, which costs its wait; else a loss of
    power may take it. Raises OSError where its folder is not there, or cannot be written.
    """
    arriving = file.with_name(f"{file.name}.arriving")
    try:
        with arriving.open("wb") as opened:
            _write(opened, content, is_durable)
        arriving.rename(file)
    except OSError:
        # On a full disk what is half there would take the place of what comes.
        with suppress(OSError):
            arriving.unlink()
        raise


def keep_whole_in(folder: int, name: str, content: str | bytes) -> None:
    """The same in a folder, by its descriptor; the file is its owner's alone.

    What lies there under the name of what arrives, a link too, is removed and not opened.
    """
    arriving = f"{name}.arriving"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with suppress(FileNotFoundError):
        os.unlink(arriving, dir_fd=folder)
    try:
        with open(os.open(arriving, flags, 0o600, dir_fd=folder), "wb") as opened:
            _write(opened, content, is_durable=False)
        os.rename(arriving, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(arriving, dir_fd=folder)
        raise


def _write(opened: BinaryIO, content: str | bytes, is_durable: bool) -> None:
    opened.write(content.encode() if isinstance(content, str) else content)
    # Before the rename: the name may reach the disk ahead of the text, and a loss of power then
    # leaves an empty file.
    if is_durable:
        opened.flush()
        os.fsync(opened.fileno())
