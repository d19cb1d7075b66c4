"""The eleventh source, which the product does not know, and a Python that has it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ELEVENTH = ROOT / "tests" / "e2e" / "eleventh"


def run_with(sources: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python of its own with TALLY_SOURCES set: the sources are read once a process."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "TALLY_SOURCES": sources},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
