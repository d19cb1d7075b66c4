"""`python -m ops.recovery`: brings everything back that follows from the master dataset.

Kafka and Cassandra have to run, with their topics and tables made, and nothing else. Each step is a
job of its own, so that an interrupted recovery can be started again from the beginning.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

from runtime.process.files import python_path
from runtime.process.job import run_command
from runtime.process.output import print_note
from tally.errors import TallyError

# What each step does, and its module with arguments.
STEPS: Mapping[str, tuple[str, ...]] = {
    "logs, registers and decisions": ("batch_layer.recovery.recover",),
    "raw receipts": ("speed_layer.receipts_refill",),
    "views": ("batch_layer.views.rebuild", "--full", "--json"),
    "baselines": ("batch_layer.recovery.recover", "--baselines"),
}


def recover(environment: Mapping[str, str]) -> None:
    """Run all steps. Raises TallyError with the first that fails."""
    child = {**environment, "PYTHONPATH": python_path(environment)}
    for number, (title, arguments) in enumerate(STEPS.items(), 1):
        print_note(f"recover {number} of {len(STEPS)}: {title}")
        ended = subprocess.run([sys.executable, "-m", *arguments], env=child, check=False)
        if ended.returncode:
            raise TallyError(f"recover: {title}: see above; correct it and recover once more")
    print_note("recovered; start the services (`tally up`), then `tally audit` compares all layers")


def main() -> int:
    """Exit code: 0 recovered, 1 not."""
    return run_command("recover", lambda: recover(os.environ))


if __name__ == "__main__":
    sys.exit(main())
