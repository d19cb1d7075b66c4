"""Rotation of log files: each has a size limit, and a few older files are kept beside it."""

import shutil
from pathlib import Path

MAX_BYTES = 20_000_000
OLD_FILES = 5  # about 120 MB per service, the log itself included
_PATTERNS = ("*.log", "*.jsonl")


def rotate(folder: Path, most_bytes: int = MAX_BYTES) -> None:
    """Copy each log above the limit (in bytes) to <name>.1, and truncate it.

    The previous <name>.1 moves to <name>.2, and so on. The log is truncated in place, because its
    writer keeps the file open; lines that are written in that instant are lost.
    """
    for pattern in _PATTERNS:
        for file in folder.glob(pattern):
            if file.stat().st_size > most_bytes:
                _rotate(file)


def _rotate(file: Path) -> None:
    past = [file.with_name(f"{file.name}.{number}") for number in range(1, OLD_FILES + 1)]
    for number in reversed(range(1, OLD_FILES)):
        if past[number - 1].exists():
            past[number - 1].rename(past[number])
    # A copy, not a rename: it keeps the mode of the log, which only the owner may read.
    shutil.copy(file, past[0])
    with file.open("r+b") as log:
        log.truncate()
