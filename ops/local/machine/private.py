"""Files that only their owner may read.

Receipts, logs and Airflow's database must be private on a shared machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tally.errors import StackError

_OTHERS = 0o077
_ErrorType = type[OSError]
_OWN = ("data", "logs", "run", "addresses.env")


@contextmanager
def owner_only() -> Iterator[None]:
    """Make files that are created in this block readable by their owner only.

    This includes the files of processes that are started in the block.
    """
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def explain_unwritable(folder: Path, fix: str, kind: _ErrorType = OSError) -> Iterator[None]:
    """Raise StackError, which ends with `fix`, for such an error in the block."""
    try:
        yield
    except kind as error:
        raise StackError(
            f"folder {folder}: cannot be written ({error.strerror}); make it writable or {fix}"
        ) from error


def make_private(home: Path) -> None:
    """Remove the access of other users to the folder and to Tally's files in it.

    A missing folder is created. Raises StackError when it cannot be created or belongs to another
    user.
    """
    with explain_unwritable(home, "set TALLY_HOME"):
        with owner_only():
            home.mkdir(parents=True, exist_ok=True)
        if home.stat().st_mode & _OTHERS:
            # Other files in the home are not Tally's.
            for name in _OWN:
                for path in (home / name, *(home / name).rglob("*")):
                    _remove_access(path)
            # The home itself comes last, so that the next start repeats an interrupted run.
            _remove_access(home)


def _remove_access(path: Path) -> None:
    # A service that runs may have removed the file meanwhile.
    with suppress(FileNotFoundError):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~_OTHERS)
