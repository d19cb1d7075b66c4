"""Runs a command in this very process and ends its whole tree when it dies, even of SIGKILL.

`python -m ops.stack.tree_guard COMMAND ARGUMENT…`: a child process stays behind as the watcher, then COMMAND takes this process's place.
"""

import os
import signal
import sys
import time

from ops.stack import processes

LOOK_EVERY_SECONDS = 0.3


def main(argv: list[str]) -> int:
    """Never returns in the guarded process; 0 in the watcher once the tree has gone."""
    guarded = os.getpid()
    if os.fork() == 0:
        return _watch(guarded, os.environ[processes.MARK])
    os.execv(argv[0], argv)


def _watch(guarded: int, mark: str) -> int:
    # The watcher leaves with the rest when the stack ends it, not on a terminal's or a component's signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == guarded:
        time.sleep(LOOK_EVERY_SECONDS)
    processes.end_leftovers(mark)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
