"""A run of pytest on a small tree of tests."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def run_pytest(folder: Path, files: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Exit code and output of pytest over these files, with the rules of tiers and turns."""
    for name, text in files.items():
        file = folder / "tests" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.tiers",
        "-p",
        "tests.turns",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "tests",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    answer = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return answer.returncode, answer.stdout
