"""What CI runs once everything is installed: `python -m tests.ci`.

`make check`, `make test`, and of the tests that `make test-all` adds as many files as fit, in an
order that begins elsewhere for each commit. Exits with the code of the first step that fails.
"""

import os
import subprocess
import sys
import time

from ops.local.process_tree import fork_supervised

# Since CI began. A slow machine has 90 minutes for all, and what has begun is let end.
BEGIN_NO_FILE_AFTER_SECONDS = 55 * 60


def main() -> int:
    """The exit code, once no process of the steps is left."""
    code = fork_supervised()
    if code is not None:
        return code
    began = float(os.environ.get("CI_BEGAN", time.time()))
    until = began + BEGIN_NO_FILE_AFTER_SECONDS
    for step in (["make", "check"], ["make", "test"], rest(commit_count(), until)):
        print(f"\n== {' '.join(step)}: begins {time.time() - began:.0f} s after CI", flush=True)
        # Nothing is said behind it: the last line is the one of pytest.
        if code := subprocess.run(step, check=False).returncode:
            return code
    return 0


def commit_count() -> int:
    """How many commits lead to the one that is tested."""
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=True
    )
    return int(counted.stdout)


def rest(turn: int, until: float) -> list[str]:
    """The command that runs what `make test` leaves out."""
    options = f"--turn {turn} --until {until:.0f}"
    return ["make", "test-integration", f"ARGS={options}"]


if __name__ == "__main__":
    sys.exit(main())
