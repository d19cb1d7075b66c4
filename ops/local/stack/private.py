"""Files that only their owner may read.

Receipts, logs and Airflow's database are nobody else's business on a shared machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tally.errors import StackError

_OTHERS = 0o077
_OWN = ("data", "logs", "run", "addresses.env")


@contextmanager
def owner_only() -> Iterator[None]:
    """Whatever is made meanwhile can be read by its owner alone.

    That holds too for what a process makes that is started here.
    """
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def make_private(home: Path) -> None:
    """The folder, and all that lies open to others in it, are their owner's alone.

    It is made if it is not there. Raises StackError when it cannot be made or belongs to somebody
    else.
    """
    try:
        with owner_only():
            home.mkdir(parents=True, exist_ok=True)
        if home.stat().st_mode & _OTHERS:
            # The home itself last: if this is interrupted, the next start begins again. What else
            # lies in it is not Tally's.
            for path in [
                *(
                    path
                    for name in _OWN
                    for path in (
                        home / name,
                        *(home / name).rglob("*"),
                    )
                ),
                home,
            ]:
                _close(path)
    except OSError as error:
        raise StackError(
            f"folder {home}: cannot be written ({error.strerror});"
            " make it writable or set TALLY_HOME"
        ) from error


def _close(path: Path) -> None:
    try:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~_OTHERS)
    except FileNotFoundError:
        return  # removed meanwhile by a service that runs
