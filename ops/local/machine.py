"""Checks of the machine and its privacy, by the standard library: they run before the set-up."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tally.errors import StackError

_OTHERS = 0o077
_ErrorType = type[OSError]
_OWN = ("data", "logs", "run", "addresses.env")


@contextmanager
def owner_only() -> Iterator[None]:
    """Make files that the block, and processes started in it, create readable by the owner only."""
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
    """Take the folder, made if missing, and Tally's files in it from others. Raises StackError."""
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


JAVA_VERSIONS = (17, 21)
# Spark 4 starts its JVM with this module; a Java without it exits at once (observed).
VECTOR_MODULE = "jdk.incubator.vector"
INSTALL_JAVA = (
    "install OpenJDK 17 or 21 (Debian: apt install openjdk-17-jdk-headless)"
    " or point JAVA_HOME at one"
)
GIGABYTE = 1_000_000_000


def java_command(environment: Mapping[str, str]) -> str:
    """The Java of JAVA_HOME, else on PATH, as PySpark takes it. Raises StackError for none."""
    home = environment.get("JAVA_HOME")
    path = str(Path(home) / "bin") if home else environment.get("PATH")
    found = shutil.which("java", path=path)
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise StackError(f"java: none {where}; {INSTALL_JAVA}")
    return found


@cache
def java_version(java: str) -> int:
    """The major version of a Java, e.g. 17. Raises StackError if it does not run."""
    # A JVM start for one line of output: cached per process.
    command = [java, "-XshowSettings:properties", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in answer.stderr.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.specification.version":
            # Versions up to 8 have the form 1.8.
            return int(value.strip().removeprefix("1."))
    raise StackError(
        f"java: {java} does not run ({answer.stderr.strip().splitlines()[:1]}); {INSTALL_JAVA}"
    )


def check_java(environment: Mapping[str, str]) -> str:
    """The Java command, of a version and with the module for Spark 4. Raises StackError."""
    java = java_command(environment)
    version = java_version(java)
    if version not in JAVA_VERSIONS:
        raise StackError(f"java: {java} is version {version}, Tally needs 17 or 21; {INSTALL_JAVA}")
    if VECTOR_MODULE not in _modules(java):
        raise StackError(
            f"java: {java} has no module {VECTOR_MODULE}, without which Spark cannot start;"
            f" {INSTALL_JAVA}"
        )
    return java


@cache
def _modules(java: str) -> frozenset[str]:
    command = [java, "--list-modules"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return frozenset(line.partition("@")[0] for line in listed.splitlines())


def check_folder(folder: Path, needed_gigabytes: float, fix: str) -> None:
    """Raise StackError, which ends with `fix`, unless `folder` can be written and has room.

    A missing folder is created; room is in 10^9 bytes.
    """
    with explain_unwritable(folder, fix):
        folder.mkdir(parents=True, exist_ok=True)
        # A real write, not a check of permissions: the disk may be full or read-only.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"tally")
    if scarce := scarce_disk(folder, needed_gigabytes):
        raise StackError(f"{scarce}; free some or {fix}")


def scarce_disk(folder: Path, needed_gigabytes: float) -> str | None:
    """A text about missing space on the disk of `folder`; None if it has room (10^9 bytes)."""
    free = shutil.disk_usage(folder).free / GIGABYTE
    if free >= needed_gigabytes:
        return None
    return f"disk: {free:.1f} GB free at {folder}, {needed_gigabytes:g} GB are needed"


def port_is_free(host: str, port: int) -> bool:
    """Whether a service could listen on host:port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # The option that servers use: a port with only TIME_WAIT connections counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
