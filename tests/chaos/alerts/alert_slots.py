"""Evaluators of two slots, and what happens to them: killed at a named moment and started again,
frozen and woken up after their successor."""

import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from runtime.process.job import FAILED
from tests.integration.ingest.conftest import KILLED, Start
from tests.support.alerts.alert_shop import AlertShop
from tests.support.stack.loop import wait_until

EVALUATOR, FAULTY = "alerting.evaluate", "tests.controls.processes.faulty_evaluator"
FREEZES = ":SIGSTOP"
# Of a process that has to come to its moment: its partitions may be the other slot's for a while.
MAX_SECONDS = 150.0
MAX_TRIES = 5


def is_frozen(process: "subprocess.Popen[str]") -> bool:
    """Whether the process has stopped by SIGSTOP."""
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


def started(
    begin: Start, shop: AlertShop, slot: int = 0, *, faults: Sequence[str] = ()
) -> "subprocess.Popen[str]":
    """An evaluator that has its partitions and their state, the shipped one without `faults`."""
    process = beginning(begin, shop, slot, faults=faults)
    ready = ready_file(shop, slot)
    wait_until(lambda: ready.exists() or process.poll() is not None, MAX_SECONDS, "it is ready")
    assert process.poll() is None, process.communicate()[1][-4000:]
    return process


def beginning(
    begin: Start, shop: AlertShop, slot: int = 0, *, faults: Sequence[str] = ()
) -> "subprocess.Popen[str]":
    """The same, which has nothing yet."""
    ready = ready_file(shop, slot)
    ready.unlink(missing_ok=True)
    own = {"TALLY_READY_FILE": str(ready), "TALLY_EVALUATOR_SLOT": str(slot)}
    return begin(FAULTY if faults else EVALUATOR, *faults, **own)


def ready_file(shop: AlertShop, slot: int) -> Path:
    """The file that an evaluator of the slot makes once it has its partitions."""
    return shop.quarters.settings.home / f"evaluator-{slot}.ready"


@dataclass
class KilledSlot:
    """One slot: whatever ends its process, the next one is started, the last one to stay.

    `done`: kills by their moment. `ended`: how often a process has ended by which exit code.
    `frozen`: those that were frozen and have a successor.
    """

    begin: Start
    shop: AlertShop
    slot: int
    kills: Sequence[str]
    done: Counter[str] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    frozen: list["subprocess.Popen[str]"] = field(default_factory=list)

    def work(self) -> "subprocess.Popen[str]":
        """The process that stays, after one kill after the other.

        Raises AssertionError for a process that ends otherwise.
        """
        for kill in self.kills:
            tries = (self._has_died(kill) for _ in range(MAX_TRIES))
            assert any(tries), f"{kill}: {MAX_TRIES} processes have failed before"
            self.done[kill.partition(":")[0]] += 1
        return started(self.begin, self.shop, self.slot)

    def _has_died(self, kill: str) -> bool:
        process = self.begin(FAULTY, "--crash", kill, TALLY_EVALUATOR_SLOT=str(self.slot))
        if kill.endswith(FREEZES):
            wait_until(lambda: process.poll() is not None or is_frozen(process), MAX_SECONDS, kill)
            if process.poll() is None:
                self.frozen.append(process)
                return True
        code = _exit_code(process, kill)
        self.ended[code] += 1
        # One that a new start heals is started again, as the watcher of a stack does it.
        assert code in (KILLED, FAILED), process.communicate()[1][-4000:]
        return code == KILLED


def _exit_code(process: "subprocess.Popen[str]", kill: str) -> int:
    try:
        return process.wait(MAX_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{kill}: {process.communicate()[1][-4000:]}") from None
