"""Log files that never fill the disk: each at most so large, with a few of its past beside it."""

import shutil
from pathlib import Path

MOST_BYTES = 20_000_000
KEPT = 5  # about 120 MB of a service, the log itself included
_PATTERNS = ("*.log", "*.jsonl")


def rotate(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Each log beyond its size is copied to <name>.1 and begins anew.

    What <name>.1 held before moves on to .2 and so forth.

    It is emptied in place, since its writer goes on with the file that it opened; what is written
    in that instant is lost.
    """
    for pattern in _PATTERNS:
        for file in folder.glob(pattern):
            if file.stat().st_size > most_bytes:
                _rotate(file)


def _rotate(file: Path) -> None:
    past = [file.with_name(f"{file.name}.{number}") for number in range(1, KEPT + 1)]
    for older, newer in reversed(
        list(zip(past[1:], past, strict=False)),
    ):
        if newer.exists():
            newer.rename(older)
    # A copy, not the file under a new name: with the mode of the log, its owner's alone.
    shutil.copy(file, past[0])
    with file.open("r+b") as log:
        log.truncate()
