"""What the machine lacks is one clear line with the fix."""

import shutil
import socket
from pathlib import Path

import pytest

from ops.local import machine
from tally.errors import StackError
from tests.unit.stack.watcher.watched import Disk

JAVA = """#!/bin/sh
case "$1" in
  --list-modules) printf '%s\\n' {modules} ;;
  *) echo '    java.specification.version = {version}' >&2 ;;
esac
"""


def java_home(folder: Path, version: str, modules: str) -> dict[str, str]:
    """Environment with a JAVA_HOME whose java is a script that answers so."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA.format(version=version, modules=modules))
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def test_suitable_java_is_taken_from_java_home(tmp_path: Path) -> None:
    environment = java_home(tmp_path, "17", "java.base@17 jdk.incubator.vector@17")

    assert machine.check_java(environment) == str(tmp_path / "bin" / "java")


def test_missing_java_names_the_packages(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="java: none on PATH; install OpenJDK 17 or 21"):
        machine.check_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_java_of_another_version_is_refused(tmp_path: Path, version: str) -> None:
    environment = java_home(tmp_path, version, "jdk.incubator.vector@x")

    with pytest.raises(
        StackError, match=f"is version {version.removeprefix('1.')}, Tally needs 17 or 21; install"
    ):
        machine.check_java(environment)


def test_java_without_the_vector_module_is_refused(tmp_path: Path) -> None:
    environment = java_home(tmp_path, "21", "java.base@21 java.sql@21")

    with pytest.raises(
        StackError, match=r"has no module jdk.incubator.vector, .*; install OpenJDK"
    ):
        machine.check_java(environment)


def test_full_disk_is_told_with_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(10**12, 10**12, 2 * 10**8))

    with pytest.raises(
        StackError, match=r"disk: 0.2 GB free at .*, 3 GB are needed; free some or set TALLY_HOME"
    ):
        machine.check_folder(tmp_path, 3, "set TALLY_HOME")


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        StackError,
        match=r"folder .*file: cannot be written .*; make it writable or set TALLY_CACHE",
    ):
        machine.check_folder(tmp_path / "file", 0, "set TALLY_CACHE")


def test_port_somebody_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert not machine.port_is_free("127.0.0.1", other.getsockname()[1])
