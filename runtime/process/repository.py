"""The path of the code, from which commands are found independent of the working folder."""

import os
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def python_path(environment: Mapping[str, str]) -> str:
    """PYTHONPATH of a child process: this code ahead of the entries of the environment."""
    return os.pathsep.join(
        part for part in (str(REPOSITORY), environment.get("PYTHONPATH", "")) if part
    )
