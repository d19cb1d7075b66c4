"""Ends a whole process tree when its root process dies, even of SIGKILL.

A process cannot react to SIGKILL, so another process has to end the rest of the tree.
"""

import os
import signal
import time

from ops.local.processes import processes

LOOK_EVERY_SECONDS = 0.3


def reap_process_tree() -> None:
    """Fork a child that outlives this process and then ends all processes with its mark."""
    guarded, mark = os.getpid(), os.environ[processes.MARK]
    if os.fork() == 0:
        _watch(guarded, mark)
        os._exit(0)


def _watch(guarded: int, mark: str) -> None:
    # It must survive the signal that ends the root process, because it ends what that leaves.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # When its parent dies, a process gets another parent.
    while os.getppid() == guarded:
        time.sleep(LOOK_EVERY_SECONDS)
    processes.end_leftovers(mark)
