"""The speed layer killed fifteen times, its Python, its JVM and both, and the same audit at the
end."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from ops.local.demo.run import DISTURBANCES
from ops.local.processes.processes import has_ended
from speed_layer.views import QUERY
from tests.chaos.layers.drivers import SpeedDriver, send_to_all
from tests.support.stack.loop import Loop, jvm_of, running_loop, wait_until

SEED = 20171
KILLS_EACH = 5
# Slow enough for fifteen restarts between the first and the last micro-batch.
PACE = ("--speed", "40000")
# After about 15 seconds the first micro-batch of a new driver ends: some kills come before, some
# after it.
LATEST_SECONDS = 30.0
POLL_SECONDS = 0.01
# The kernel counts a start in hundredths of a second.
TOLERANCE_SECONDS = 0.02


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("kills")) as running:
        yield running


@contextmanager
def replaying(loop: Loop) -> Iterator["subprocess.Popen[str]"]:
    """A replay of the year under way; ended with the block."""
    replay = loop.start("replay", "--source", "complete-journey", *PACE, *DISTURBANCES)
    try:
        yield replay
    finally:
        replay.kill()
        replay.communicate()


def victims(loop: Loop, mode: str) -> list[psutil.Process]:
    """The processes that a mode kills: the driver's Python, its JVM, or both."""
    python = psutil.Process(loop.pid("speed"))
    jvm = jvm_of(python.pid)
    return {"python": [python], "jvm": [jvm], "both": [python, jvm]}[mode]


def last_seen_alive(processes: list[psutil.Process]) -> float:
    """When the last of the processes was seen alive, in seconds since the machine booted;
    returns once all are dead."""
    seen = 0.0
    while not all(has_ended(process) for process in processes):
        seen = time.clock_gettime(time.CLOCK_BOOTTIME)
        time.sleep(POLL_SECONDS)
    return seen


def test_kills_of_python_jvm_and_both_leave_the_same_audit(loop: Loop) -> None:
    chance = random.Random(SEED)
    modes = [mode for mode in ("python", "jvm", "both") for _ in range(KILLS_EACH)]
    chance.shuffle(modes)
    with replaying(loop) as replay:
        wait_until(lambda: bool(loop.micro_batches()), 120, "the first micro-batch")
        overlaps = [
            overlap
            for mode in modes
            if (overlap := killed_and_started_again(loop, mode, chance)) > TOLERANCE_SECONDS
        ]
        after_the_last_kill = len(loop.micro_batches())
        replay.communicate(timeout=1200)
    assert replay.returncode == 0
    loop.catch_up()
    assert len(loop.micro_batches()) > after_the_last_kill, (
        "the last kill has to come before the last micro-batch"
    )
    loop.json("rebuild", "--full")

    found = loop.json("audit")

    oracle = found["oracle"]
    batches = len(loop.micro_batches())
    print(
        f"{len(modes)} kills ({', '.join(modes)}), {batches} micro-batches, {len(overlaps)} starts"
        " beside a living process"
    )
    print({name: oracle[name] for name in ("windows", "equal", "receipts", "minor")})
    assert (overlaps, found["ok"], oracle["equal"], oracle["receipts"]) == (
        [],
        True,
        oracle["windows"],
        # Of the 155,848 baskets of the year 328 hold lines of quantity and money 0 alone.
        155_520,
    )


def killed_and_started_again(loop: Loop, mode: str, chance: random.Random) -> float:
    """Kill at a seeded moment and start again; for how many seconds old processes lived beside
    the new driver (0 or less: none)."""
    wait_for_seeded_moment(chance)
    old = SpeedDriver(loop.pid("speed"), loop.settings.checkpoint(QUERY)).processes()
    with ThreadPoolExecutor(1) as watching:
        killed = victims(loop, mode)
        send_to_all(killed, signal.SIGKILL)
        seen = watching.submit(last_seen_alive, old)
        wait_until(
            lambda: all(has_ended(process) for process in killed), 30, "what was killed has ended"
        )
        loop.up("speed")
        return seen.result() - started_at(loop.pid("speed"))


def started_at(pid: int) -> float:
    """When a process was started, in seconds since the machine booted: its wall clock time is
    off by up to a second in psutil."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def wait_for_seeded_moment(chance: random.Random) -> None:
    """Some moment of the first seconds after a start: before a micro-batch, inside one, or after
    some."""
    moment = time.monotonic() + chance.uniform(0, LATEST_SECONDS)
    wait_until(lambda: time.monotonic() >= moment, LATEST_SECONDS + 1, "the seeded moment")
