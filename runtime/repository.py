"""Where the code lies: what is started is found from here, whatever folder the caller is in."""

import os
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def python_path(environment: Mapping[str, str]) -> str:
    """PYTHONPATH of a process of ours: this code ahead of what the environment names."""
    return os.pathsep.join(
        part for part in (str(REPOSITORY), environment.get("PYTHONPATH", "")) if part
    )
