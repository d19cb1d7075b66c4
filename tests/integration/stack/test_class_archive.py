"""Each JVM begins with the archive of classes that the set-up has made, and without it where it
is another one's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ops.local.services import catalogue
from runtime.process.files import REPOSITORY
from runtime.spark.configuration import archive_file, archive_options, classes_jar
from tally.config.settings import Settings
from tests.conftest import make_site

SESSION = """
from runtime.spark.configuration import classes_jar
from runtime.spark.session import build_session
from tally.config.settings import Settings
options = {{"spark_java_options": "-Xlog:class+load:file={log}"}}
build_session(Settings.load().model_copy(update=options), "archive").range(3).count()
"""
FROM_ARCHIVE = "shared objects file (top)"


def sources(log: Path) -> tuple[int, int]:
    """How many classes of Spark a session has taken from the archive, and how many it has read."""
    command = [sys.executable, "-c", SESSION.format(log=log)]
    subprocess.run(
        command, cwd=REPOSITORY, env=dict(os.environ), capture_output=True, check=True, timeout=600
    )
    # A lambda's class is made, not read.
    lines = [
        line
        for line in log.read_text().splitlines()
        if "org.apache.spark" in line and "Lambda" not in line
    ]
    archived = sum(FROM_ARCHIVE in line for line in lines)
    return archived, len(lines) - archived


@pytest.mark.skipif(
    " " in sys.prefix,
    reason="Java 17 archives no class of a jar whose path has a blank; each is read from its jar",
)
def test_sessions_take_most_of_sparks_classes_from_the_archive(tmp_path: Path) -> None:
    archived, read = sources(tmp_path / "classes.log")
    print(f"{archived:,} classes of Spark came from the archive, {read:,} from jars")
    assert archived > 1000
    assert read < 0.1 * archived


@pytest.mark.parametrize("name", ["kafka", "cassandra"])
def test_service_is_started_with_an_archive_that_java_takes_for_these_jars_alone(
    tmp_path: Path, name: str
) -> None:
    site = make_site(tmp_path)
    site.run("config").parent.mkdir()
    java, *options = catalogue.SERVICES[name].launch(site).argv
    place = options.index("-cp") + 1

    def answer(class_path: str) -> int:
        command = [java, "-Xshare:on", *options[:place], class_path, "-version"]
        return subprocess.run(command, capture_output=True, check=False, timeout=600).returncode

    assert archive_options(site.settings.cache, name)[0] in options
    assert (
        answer(options[place]),
        answer(f"{classes_jar(site.settings.cache)}:{options[place]}"),
    ) == (0, 1)


def test_archive_of_other_jars_is_another_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
