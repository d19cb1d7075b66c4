"""Checks of the machine's requirements: Java, disk, folders.

It uses the standard library only, because it runs before the set-up.
"""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ops.local.machine.private import explain_unwritable
from tally.errors import StackError

JAVA_VERSIONS = (17, 21)
# Spark 4 starts its JVM with this module; a Java without it exits at once (observed).
VECTOR_MODULE = "jdk.incubator.vector"
INSTALL_JAVA = (
    "install OpenJDK 17 or 21 (Debian: apt install openjdk-17-jdk-headless)"
    " or point JAVA_HOME at one"
)
GIGABYTE = 1_000_000_000


def java_command(environment: Mapping[str, str]) -> str:
    """The path of the Java that PySpark uses too: JAVA_HOME/bin/java, else the one on PATH.

    Raises StackError if there is none.
    """
    home = environment.get("JAVA_HOME")
    found = (
        shutil.which("java", path=str(Path(home) / "bin"))
        if home
        else shutil.which("java", path=environment.get("PATH"))
    )
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise StackError(f"java: none {where}; {INSTALL_JAVA}")
    return found


@cache
def java_version(java: str) -> int:
    """The major version of a Java, e.g. 17. Raises StackError if it does not run."""
    answer = subprocess.run(
        # A JVM start for one line of output: cached per process.
        [java, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in answer.stderr.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.specification.version":
            # Versions up to 8 have the form 1.8.
            return int(value.strip().removeprefix("1."))
    raise StackError(
        f"java: {java} does not run ({answer.stderr.strip().splitlines()[:1]}); {INSTALL_JAVA}"
    )


def check_java(environment: Mapping[str, str]) -> str:
    """The Java command, checked for version 17 or 21 and the vector module that Spark 4 needs.

    Raises StackError when the Java is missing or does not fit.
    """
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
