"""The jobs that are measured: each reads the canonical topic `sales` and writes the speed rows.

A contender is Tally's own job, that of another checkout (`--against`), or a peer.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.process.files import REPOSITORY


@dataclass(frozen=True)
class Contender:
    """A job: its module, and the checkout that it is started from."""

    name: str
    module: str
    folder: Path = REPOSITORY

    @property
    def command(self) -> list[str]:
        """The command, with the Python of its own checkout."""
        return [*self._python, self.module]

    @property
    def _python(self) -> list[str]:
        return [str(self.folder / ".venv" / "bin" / "python"), "-m"]

    def make_tables(self, environment: Mapping[str, str]) -> None:
        """Create the tables of another checkout, beside those of this one.

        An older job writes tables that do not exist any more. Raises CalledProcessError when the
        command fails.
        """
        if self.folder != REPOSITORY:
            is_here = (self.folder / "ops" / "provision.py").exists()
            module = "ops.provision" if is_here else "ops.stack.provision"
            command = [*self._python, module]
            subprocess.run(command, cwd=self.folder, env=environment, check=True)


def contenders(against: Sequence[Path]) -> list[Contender]:
    """This checkout's speed layer, the plain loop, and the speed layers of other checkouts."""
    others = [
        Contender(f"speed layer of {path.name}", "speed_layer.job", path.resolve())
        for path in against
    ]
    return [
        Contender("speed layer", "speed_layer.job"),
        Contender("plain loop", "bench.measurements.plain_loop"),
        *others,
    ]
