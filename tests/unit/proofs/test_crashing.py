"""What has a process killed or frozen on purpose is no part of the product, and does it once."""

import os
import signal

import pytest

from runtime.processor.delivery import AFTER_POLL, BEFORE_COMMIT, FAILPOINTS, Failpoints
from tally.config.settings import Settings
from tests.controls.processes.crashing import Crash
from tests.controls.processes.faulty_evaluator import AFTER_READ, IN_RESTORE, TellingCrash
from tests.unit.architecture.counts.sources import ROOT, python_files

TEST = Settings(keyspace="test_crashing")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals sent, by pid and number."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *signal: found.append(signal))
    return found


def test_nothing_happens_at_a_moment_of_the_product(sent: list[tuple[int, int]]) -> None:
    for name in FAILPOINTS:
        Failpoints().hit(name)

    assert sent == []


def test_crash_comes_when_its_moment_has_come_so_many_times(sent: list[tuple[int, int]]) -> None:
    crash, counts = Crash.of("before_commit:2", TEST), []
    for name in (BEFORE_COMMIT, AFTER_POLL, BEFORE_COMMIT, BEFORE_COMMIT):
        crash.hit(name)
        counts.append(len(sent))

    assert (counts, sent) == ([0, 0, 1, 1], [(os.getpid(), signal.SIGKILL)])


def test_crash_may_freeze() -> None:
    assert Crash.of("before_commit:3:SIGSTOP", TEST) == Crash(
        TEST, BEFORE_COMMIT, 3, signal.SIGSTOP
    )


@pytest.mark.parametrize(
    ("name", "counts"), [(AFTER_READ, [0, 1]), (BEFORE_COMMIT, [0, 1]), (IN_RESTORE, [1, 1])]
)
def test_crash_of_an_evaluator_counts_deliveries_that_tell_alerts(
    name: str, counts: list[int], sent: list[tuple[int, int]]
) -> None:
    crash, found = TellingCrash.of(f"{name}:1", TEST), []
    for crash.is_telling in (False, True):
        crash.hit(name)
        found.append(len(sent))

    assert found == counts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nowhere:1",
        "before_commit",
        "before_commit:x",
        "before_commit:1:SIGTERM",
        "before_commit:1:SIGSTOP:2",
    ],
)
def test_crash_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}: write name:nth"):
        Crash.of(text, TEST)


def test_no_file_of_the_product_takes_a_crash_from_its_environment() -> None:
    named = [
        str(file)
        for file in python_files()
        if file.parts[0] != "tests" and "TALLY_FAULT" in (ROOT / file).read_text("utf-8")
    ]

    assert named == []


def test_only_a_control_can_send_the_process_of_a_delivery_a_signal() -> None:
    of_processor = [file for file in python_files() if file.parts[:2] == ("runtime", "processor")]

    assert of_processor and not [
        file for file in of_processor if "os.kill" in (ROOT / file).read_text("utf-8")
    ]
