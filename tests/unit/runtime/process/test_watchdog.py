"""A loop that hangs in a call without end: its process ends, with its reason; one that beats, or
was frozen as a whole, goes on."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime.process.job import FAILED

LOOKS, LOOK_SECONDS = 5, 0.1
BEGIN = f"""
import time
from threading import Event
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import start_watchdog

heartbeat, stopped = Heartbeat(None), Event()
start_watchdog("job", heartbeat, stopped, {LOOKS}, {LOOK_SECONDS})
"""
BEATS_FOR_A_SECOND = """
until = time.monotonic() + 1.5
while time.monotonic() < until:
    heartbeat.beat(0, False)
    time.sleep(0.05)
"""


def begun(work: str, exit_file: Path) -> "subprocess.Popen[str]":
    """A process that does the work under a watchdog."""
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + work],
        cwd=Path(__file__).parents[4],
        env={"TALLY_EXIT_FILE": str(exit_file)},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "hangs",
    [
        "time.sleep(60)",
        f"{BEATS_FOR_A_SECOND}time.sleep(60)",
        f"stopped.set()\n{BEATS_FOR_A_SECOND * 9}",
    ],
)
def test_loop_that_does_not_come_back_ends_its_process(hangs: str, tmp_path: Path) -> None:
    process = begun(hangs, tmp_path / "exit")

    _, said = process.communicate(timeout=20)

    assert (process.returncode, said) == (
        FAILED,
        "job: no sign of life for 0 s; start the process again\n",
    )
    assert json.loads((tmp_path / "exit").read_text())["code"] == FAILED


def test_loop_that_turns_is_left_alone_also_after_it_was_frozen(tmp_path: Path) -> None:
    process = begun(BEATS_FOR_A_SECOND * 2, tmp_path / "exit")
    time.sleep(0.7)
    process.send_signal(signal.SIGSTOP)
    time.sleep(3 * LOOKS * LOOK_SECONDS)
    process.send_signal(signal.SIGCONT)

    _, said = process.communicate(timeout=20)

    assert (process.returncode, said) == (0, "")
