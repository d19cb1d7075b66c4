"""Jars are whole and as the lock has them, or not there at all."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.local import artifacts
from tally.errors import StackError

GOOD = hashlib.sha256(b"good").hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one part with one jar; no Java is asked for."""
    lock = tmp_path / "artifacts.lock"
    lock.write_text(f"{artifacts._heading()}{GOOD}  kafka/broker.jar\n")
    monkeypatch.setattr(artifacts, "LOCK_FILE", lock)
    monkeypatch.setattr(artifacts, "PARTS", ("kafka",))
    monkeypatch.setattr(artifacts, "check_java", lambda environment: "java")
    return tmp_path / "cache"


def brings(content: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes Ivy bring broker.jar with this content; the list grows with each of its runs."""
    runs: list[str] = []

    def ivy_lines(fetch: artifacts._Fetch) -> Iterator[str]:
        runs.append(fetch.part)
        fetch.download_folder.mkdir(parents=True)
        (fetch.download_folder / "broker.jar").write_bytes(content)
        yield "\t[SUCCESSFUL ] broker.jar"

    monkeypatch.setattr(artifacts, "_ivy_lines", ivy_lines)
    return runs


def test_second_run_fetches_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = brings(b"good", monkeypatch)

    artifacts.fetch_parts(cache)
    artifacts.fetch_parts(cache)

    assert runs == ["kafka"] and artifacts.part_is_complete(cache, "kafka")


def test_jar_that_differs_from_the_lock_is_never_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brings(b"forged", monkeypatch)

    with pytest.raises(
        StackError,
        match=(
            r"JVM parts: broker.jar differ from .*artifacts.lock; remove .*ivy and run `make setup`"
        ),
    ):
        artifacts.fetch_parts(cache)

    assert not (cache / "jars" / "kafka").exists()


def test_jar_that_has_gone_is_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = brings(b"good", monkeypatch)
    artifacts.fetch_parts(cache)
    (cache / "jars" / "kafka" / "broker.jar").unlink()

    artifacts.fetch_parts(cache)

    assert runs == ["kafka", "kafka"]


def test_broken_download_is_tried_again_then_told_with_the_fix(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def ivy_lines(fetch: artifacts._Fetch) -> Iterator[str]:
        tries.append(fetch.part)
        yield "\t[FAILED     ] broker.jar: Connection reset"

    monkeypatch.setattr(artifacts, "_ivy_lines", ivy_lines)
    with pytest.raises(
        StackError,
        match=r"kafka: \[FAILED .*Connection reset; check the network, run `make setup` again",
    ):
        artifacts.fetch_parts(cache)

    assert len(tries) == artifacts.ATTEMPTS


def test_class_path_before_the_set_up_names_make_setup(cache: Path) -> None:
    with pytest.raises(StackError, match="run `make setup`"):
        artifacts.class_path(cache, "kafka")


def test_changed_ivy_file_asks_for_a_new_lock(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ivy.xml").write_text("<ivy-module/>")
    monkeypatch.setattr(artifacts, "IVY_FILE", tmp_path / "ivy.xml")

    with pytest.raises(StackError, match=r"run `python -m ops.local.artifacts --record`"):
        artifacts.fetch_parts(cache)


def test_lock_is_recorded_from_the_ivy_file() -> None:
    assert artifacts.LOCK_FILE.read_text().startswith(artifacts._heading())


def test_lock_names_jars_of_every_part() -> None:
    locked = artifacts.read_lock_file()

    assert set(locked) == {"kafka", "cassandra", "spark"}
    assert all(len(digest) == 64 for jars in locked.values() for digest in jars.values())
