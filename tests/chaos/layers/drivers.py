"""Speed drivers beside and instead of the stack's own one: started, frozen in a micro-batch,
resumed, killed."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from ops.local.processes.processes import send
from runtime.registry.sources import SALES
from speed_layer.session import read_retained_offsets
from speed_layer.views import QUERY
from tests.support.stack.loop import Loop, has_reached, wait_until


@dataclass(frozen=True)
class SpeedDriver:
    """One running speed layer: its processes and the checkpoint of its views."""

    pid: int
    checkpoint: Path

    def processes(self) -> list[psutil.Process]:
        """The JVM first: a signal must reach it before what it waits for."""
        python = psutil.Process(self.pid)
        children = python.children(recursive=True)
        return [*sorted(children, key=_is_jvm, reverse=True), python]

    def micro_batches(self) -> tuple[int, int]:
        """Numbers of the last planned and of the last committed micro-batch; -1 for none."""
        return _last(self.checkpoint / "offsets"), _last(self.checkpoint / "commits")

    def has_read_all(self, loop: Loop) -> bool:
        """Whether everything committed to the canonical topic lies in its committed
        micro-batches."""
        return has_reached(
            self.checkpoint, SALES.topic, read_retained_offsets(loop.settings, SALES.topic).end
        )

    def freeze_in_a_micro_batch(self) -> list[psutil.Process]:
        """Stop the driver (SIGSTOP) once its next micro-batch is planned and before it is
        committed; what was stopped."""
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, "no micro-batch could be caught in flight"
            if not self._in_flight():
                time.sleep(0.01)
                continue
            frozen = self.processes()
            send_to_all(frozen, signal.SIGSTOP)
            if self._in_flight():
                return frozen
            send_to_all(frozen, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to all of it."""
        send_to_all(self.processes(), signal.SIGKILL)

    def _in_flight(self) -> bool:
        planned, committed = self.micro_batches()
        return planned > committed


def resume(frozen: list[psutil.Process]) -> None:
    """SIGCONT to what was frozen."""
    send_to_all(frozen, signal.SIGCONT)


@contextmanager
def another_driver(
    loop: Loop, folder: Path, *arguments: str, module: str = "speed_layer.job"
) -> Iterator[SpeedDriver]:
    """A speed layer more on the same tables, with checkpoints of its own; killed with all its
    processes at the end.

    `module` is the shipped job, or it with something wrong put in (tests/controls).
    """
    folder.mkdir()
    ready, checkpoints = folder / "ready", folder / "checkpoints"
    environment = {
        **loop.environment,
        "TALLY_CHECKPOINTS": str(checkpoints),
        "TALLY_READY_FILE": str(ready),
    }
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], env=environment, stderr=log, stdout=log
        )
        driver = SpeedDriver(started.pid, checkpoints / QUERY)
        try:
            wait_until(
                lambda: ready.exists() or started.poll() is not None,
                180,
                "the other driver is ready",
            )
            assert started.poll() is None, (folder / "log").read_text()[-3000:]
            yield driver
        finally:
            driver.kill()
            started.wait(30)


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:  # a child that has just ended, e.g. a shell of the JVM
        return False


def send_to_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    """The signal to each that is still there."""
    for process in processes:
        send(process, number)


def _last(folder: Path) -> int:
    return max((int(file.name) for file in folder.glob("*") if file.name.isdigit()), default=-1)
