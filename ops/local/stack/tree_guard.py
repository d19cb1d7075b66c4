"""Ends a whole process tree when its head dies, even of SIGKILL.

A SIGKILL lets the head tell nobody.
"""

import os
import signal
import time

from ops.local.stack import processes

LOOK_EVERY_SECONDS = 0.3


def leave_watcher() -> None:
    """A child of this process that outlives it and then ends every process with this one's mark."""
    guarded, mark = os.getpid(), os.environ[processes.MARK]
    if os.fork() == 0:
        _watch(guarded, mark)
        os._exit(0)


def _watch(guarded: int, mark: str) -> None:
    # It must not die of the signal that ends the head: what the head leaves behind is its work.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whose parent dies is given another one.
    while os.getppid() == guarded:
        time.sleep(LOOK_EVERY_SECONDS)
    processes.end_leftovers(mark)
