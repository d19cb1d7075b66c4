"""The speed layer killed fifteen times, its Python, its JVM and both, and the same audit at the end."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.loop import Loop, jvm_of, running_loop, wait_until

SEED = 20171
KILLS_EACH = 5
PACE = ("--speed", os.environ.get("TALLY_E2E_PACE", "130000"))
LAST_DAY = os.environ.get("TALLY_E2E_KILLS_TO", "")  # empty: the whole year


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("kills")) as running:
        yield running


def victims(loop: Loop, mode: str) -> list[psutil.Process]:
    """The processes that a mode kills: the driver's Python, its JVM, or both."""
    python = psutil.Process(loop.pid("speed"))
    jvm = jvm_of(python.pid)
    return {"python": [python], "jvm": [jvm], "both": [python, jvm]}[mode]


def family_of(loop: Loop) -> list[psutil.Process]:
    """Every process of the running speed layer."""
    python = psutil.Process(loop.pid("speed"))
    return [python, *python.children(recursive=True)]


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)


def still_alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def test_kills_of_python_jvm_and_both_leave_the_same_audit(loop: Loop) -> None:
    chance = random.Random(SEED)
    modes = [mode for mode in ("python", "jvm", "both") for _ in range(KILLS_EACH)]
    chance.shuffle(modes)
    replay = loop.start("replay", "--source", "complete-journey", *PACE, *(("--to", LAST_DAY) if LAST_DAY else ()))
    survivors = []

    for mode in modes:
        wait_for_seeded_moment(loop, chance)
        old = family_of(loop)
        kill(victims(loop, mode))
        loop.up("speed")
        survivors += still_alive(old)
    assert replay.wait(600) == 0
    batches_before_end = len(loop.micro_batches())
    loop.catch_up()
    loop.json("rebuild", "--full")

    found = loop.json("audit", *(("--days", f"2017-01-01..{LAST_DAY}") if LAST_DAY else ()))

    print(f"{len(modes)} kills ({', '.join(modes)}), {batches_before_end} micro-batches, {found['oracle']['windows']:,} windows audited")
    assert (survivors, found["ok"], found["oracle"]["equal"]) == ([], True, found["oracle"]["windows"])


def wait_for_seeded_moment(loop: Loop, chance: random.Random) -> None:
    """Some moment after the next micro-batch that holds records: inside a later one, or between two."""
    seen, delay = len(loop.micro_batches()), chance.uniform(0, 3)
    wait_until(lambda: len(loop.micro_batches()) > seen, 120, "a micro-batch after the restart")
    moment = time.monotonic() + delay
    wait_until(lambda: time.monotonic() >= moment, 10, "the seeded moment")
