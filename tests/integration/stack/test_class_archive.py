"""Each JVM begins with the archive of classes that the set-up has made, and without it where it is another one's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.stack import catalogue, control
from ops.stack.sample_service import with_option
from runtime.class_archive import archive_file, archive_options
from runtime.spark import REPOSITORY
from tally.settings import Settings
from tests.conftest import make_site

SESSION = """
from runtime.spark import build_session
from tally.settings import Settings
build_session(Settings.load().model_copy(update={{"spark_java_options": "-Xlog:class+load:file={log}"}}), "archive").range(3).count()
"""
FROM_ARCHIVE = "shared objects file (top)"


def sources(log: Path, package: str) -> tuple[int, int]:
    """How many classes of a package a JVM has taken from the archive, and how many it has read, by its own log."""
    # A lambda's class is made, not read.
    lines = [line for line in log.read_text().splitlines() if f" {package}." in line and "Lambda" not in line]
    archived = sum(FROM_ARCHIVE in line for line in lines)
    print(f"{archived:,} classes of {package} came from the archive, {len(lines) - archived:,} from jars")
    return archived, len(lines) - archived


def test_sessions_take_most_of_sparks_classes_from_the_archive(tmp_path: Path) -> None:
    log = tmp_path / "classes.log"
    command = [sys.executable, "-c", SESSION.format(log=log)]
    subprocess.run(command, cwd=REPOSITORY, env=dict(os.environ), capture_output=True, check=True, timeout=120)

    archived, read = sources(log, "org.apache.spark")

    assert archived > 1000
    assert read < 0.1 * archived


@pytest.mark.parametrize(("name", "package"), [("kafka", "org.apache.kafka"), ("cassandra", "org.apache.cassandra")])
def test_services_take_most_of_their_classes_from_the_archive(tmp_path: Path, name: str, package: str) -> None:
    log = tmp_path / "classes.log"
    site, service = make_site(tmp_path / "home"), with_option(catalogue.SERVICES[name], f"-Xlog:class+load:file={log}")

    control.up(site, [service], print)
    control.down(site, [service], print)

    archived, read = sources(log, package)

    assert archived > 1000
    assert read < 0.1 * archived


def test_archive_of_other_jars_is_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = Settings.load().cache
    there = archive_file(cache)
    assert there is not None
    assert archive_options(cache) == (f"-XX:SharedArchiveFile={there}",)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "other.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert archive_file(cache) != there
    assert archive_options(cache) == ()


def test_without_java_there_is_no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_file(Settings.load().cache) is None
