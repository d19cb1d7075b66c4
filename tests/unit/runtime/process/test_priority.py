import os
import subprocess
import sys

from runtime.process.job import NICENESS

PROGRAM = """
import os, subprocess, sys
from runtime.process.job import lower_process_priority
lower_process_priority()
child = [sys.executable, "-c", "import os; print(os.nice(0))"]
print(os.nice(0), subprocess.check_output(child, text=True).strip())
"""


def test_whoever_steps_back_and_all_that_it_starts_has_low_priority() -> None:
    found = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).split()

    assert found == [str(os.nice(0) + NICENESS)] * 2
