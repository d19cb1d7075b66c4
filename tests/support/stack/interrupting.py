"""A command that is interrupted at a moment of its life, and what is left of it afterwards."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ops.local.processes.processes import has_ended
from tests.support.stack.loop import wait_until

BEGIN_SECONDS = 600
LEFT_AFTER_SECONDS = 10.0
CTRL_C = b"\x03"
# A run of the tests that begins every service and then waits.
SHORT_RUN = str(Path(__file__).parents[2] / "integration" / "stack" / "short_run.py")
TEST_RUN = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-n", "1", SHORT_RUN)
# Gives the command a terminal of its own, whose keyboard is this process's standard input.
IN_A_TERMINAL = (sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)")


@dataclass
class Interrupted:
    """A command in a terminal of its own, and every process of it that was ever seen."""

    terminal: "subprocess.Popen[bytes]"
    seen: set[psutil.Process] = field(default_factory=set)

    @classmethod
    def begin_tests(cls, *options: str) -> "Interrupted":
        """A run of the tests, begun without the variables of the run that the test is part of."""
        own = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        return cls.begin((*TEST_RUN, *options), own)

    @classmethod
    def begin(cls, command: Sequence[str], environment: Mapping[str, str]) -> "Interrupted":
        """The command, begun."""
        terminal = subprocess.Popen(
            [*IN_A_TERMINAL, *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return cls(terminal)

    @classmethod
    def left_of_tests(cls, moment: str, interrupt: Callable[["Interrupted"], None]) -> list[str]:
        """What left_after() finds of a run of the tests, interrupted when `moment` runs."""
        run = cls.begin_tests()
        run.wait_for(moment)
        return run.left_after(interrupt)

    def processes(self) -> list[psutil.Process]:
        """The live processes of the command, the head of it first."""
        # Once the terminal has gone, those that it has left are known.
        with suppress(psutil.NoSuchProcess):
            self.seen.update(psutil.Process(self.terminal.pid).children(recursive=True))
        found = [process for process in self.seen if not has_ended(process)]
        return sorted(found, key=lambda process: (process.create_time(), process.pid))

    def wait_for(self, part: str) -> None:
        """Returns when a process of it has the text in its command line."""

        def runs() -> bool:
            return any(part in " ".join(_command(process)) for process in self.processes())

        wait_until(runs, BEGIN_SECONDS, f"{part} runs")

    def terminate(self) -> None:
        """SIGTERM to the head of the command."""
        self.processes()[0].terminate()

    def kill_pythons(self) -> None:
        """SIGKILL to the head of the command and to all that are Pythons, as if at once."""
        # By the program: a worker of xdist calls itself by the test that it runs.
        pythons = [process for process in self.processes() if _is_python(process)]
        # A worker whose head has died begins to stop its services: none goes on meanwhile.
        for process in reversed(pythons):
            process.suspend()
        for process in pythons:
            process.kill()

    def press_ctrl_c(self) -> None:
        """SIGINT from its terminal."""
        assert self.terminal.stdin is not None
        self.terminal.stdin.write(CTRL_C)
        self.terminal.stdin.flush()

    def left_after(self, interrupt: Callable[["Interrupted"], None]) -> list[str]:
        """Command lines of the processes that are there 10 seconds after the interrupt; they are
        killed then."""
        interrupt(self)
        deadline = time.monotonic() + LEFT_AFTER_SECONDS
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        lines = [" ".join(_command(process)) for process in left]
        for process in left:
            process.kill()
        self.terminal.kill()
        self.terminal.communicate()
        return lines


def _is_python(process: psutil.Process) -> bool:
    try:
        return Path(process.exe()).name.startswith("python")
    except psutil.Error:
        return False


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
