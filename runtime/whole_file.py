"""A file that is there whole or as it was before, whoever reads it and whenever we are killed."""

import os
from pathlib import Path


def keep_whole(file: Path, content: str | bytes, *, is_durable: bool = False) -> None:
    """The file has this content (text as UTF-8); who reads meanwhile finds the old one.

    is_durable: it is on the disk then and not in a cache, which costs its wait; else a loss of
    power may take it. Raises OSError where its folder is not there, or cannot be written.
    """
    arriving = file.with_name(f"{file.name}.arriving")
    with arriving.open("wb") as opened:
        opened.write(content.encode() if isinstance(content, str) else content)
        # Before the rename: the name may reach the disk ahead of the text, and a loss of power then
        # leaves an empty file.
        if is_durable:
            opened.flush()
            os.fsync(opened.fileno())
    arriving.rename(file)
