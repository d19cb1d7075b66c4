"""A heartbeat tells an idle job from a stalled one, and both from a dead one."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.process.heartbeat import (
    Heartbeat,
    find_stall,
    main,
    read_restore_seconds,
    stall_reason,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock: its one element."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def beats(clock: list[float], file: Path, seconds: int, *, moves: bool, is_behind: bool) -> None:
    """One beat a second; `moves`: each with more done than the one before."""
    heart = Heartbeat(file)
    for second in range(seconds + 1):
        heart.beat(second if moves else "the same", is_behind)
        clock[0] += 1
    clock[0] -= 1


@pytest.mark.parametrize(("moves", "is_behind"), [(True, True), (True, False), (False, False)])
def test_job_that_works_or_is_idle_is_healthy_for_ever(
    tmp_path: Path, clock: list[float], moves: bool, is_behind: bool
) -> None:
    beats(clock, tmp_path / "beat", 300, moves=moves, is_behind=is_behind)

    assert stall_reason(tmp_path / "beat", 60) is None


def test_job_that_is_behind_and_gets_nothing_done_is_stalled_just_beyond_the_limit(
    tmp_path: Path, clock: list[float]
) -> None:
    beats(clock, tmp_path / "beat", 60, moves=False, is_behind=True)
    at_the_limit = stall_reason(tmp_path / "beat", 60)
    beats(clock, tmp_path / "beat", 61, moves=False, is_behind=True)

    assert (at_the_limit, stall_reason(tmp_path / "beat", 60)) == (
        None,
        "no progress for 61 s while records wait",
    )


def test_silent_job_is_stalled_whatever_it_said_last(tmp_path: Path, clock: list[float]) -> None:
    beats(clock, tmp_path / "beat", 5, moves=True, is_behind=False)
    clock[0] += 61

    assert find_stall(tmp_path / "beat", 60) == (61, "no heartbeat for 61 s")


def test_work_that_comes_to_an_idle_job_has_its_time_from_then_on(
    tmp_path: Path, clock: list[float]
) -> None:
    heart = Heartbeat(tmp_path / "beat")
    heart.beat("the same", is_behind=False)
    clock[0] += 300
    heart.beat("the same", is_behind=False)
    clock[0] += 59
    heart.beat("the same", is_behind=True)

    assert stall_reason(tmp_path / "beat", 60) is None


def test_beats_within_a_second_are_written_once(tmp_path: Path, clock: list[float]) -> None:
    heart, file = Heartbeat(tmp_path / "beat"), tmp_path / "beat"
    heart.beat(1, is_behind=True)
    first = file.read_text()
    clock[0] += 0.9
    heart.beat(2, is_behind=True)
    between = file.read_text()
    clock[0] += 0.1
    heart.beat(2, is_behind=True)

    assert between == first
    assert json.loads(file.read_text()) == {"at": 1001.0, "moved_at": 1000.9}


def test_job_that_has_not_written_yet_is_not_stalled(tmp_path: Path) -> None:
    assert stall_reason(tmp_path / "none", 60) is None


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    Heartbeat(None).beat(1, is_behind=True)


def test_it_says_how_long_the_job_took_to_restore_its_state_while_the_job_works(
    tmp_path: Path, clock: list[float]
) -> None:
    heart = Heartbeat(tmp_path / "evaluator.heartbeat")
    heart.beat(1, is_behind=False)
    Heartbeat(tmp_path / "projector.heartbeat").beat(1, is_behind=False)
    before = read_restore_seconds(tmp_path, 60)
    heart.record_restore(2.5)
    clock[0] += 1
    heart.beat(2, is_behind=False)
    clock[0] += 1
    heart.beat(3, is_behind=False)
    works = read_restore_seconds(tmp_path, 60)
    clock[0] += 61

    assert (before, works) == ({}, {"evaluator": 2.5})
    assert (read_restore_seconds(tmp_path, 60), read_restore_seconds(None, 60)) == ({}, {})


def test_health_check_as_a_command(tmp_path: Path) -> None:
    file, check = tmp_path / "beat", [sys.executable, "-m", "runtime.process.heartbeat"]
    before = subprocess.run([*check, str(file), "60"], capture_output=True, text=True, check=False)
    Heartbeat(file).beat(1, is_behind=False)

    after = subprocess.run([*check, str(file), "60"], capture_output=True, text=True, check=False)

    assert (before.returncode, before.stdout) == (1, "no heartbeat yet\n")
    assert (after.returncode, after.stdout) == (0, "")


def test_health_check_of_a_stalled_job_says_why(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    beats(clock, tmp_path / "beat", 61, moves=False, is_behind=True)

    assert (main([str(tmp_path / "beat"), "60"]), capsys.readouterr().out) == (
        1,
        "no progress for 61 s while records wait\n",
    )
