"""Lower CPU priority of background jobs, on which the views do not wait."""

import os

NICENESS = 10


def lower_process_priority() -> None:
    """Lower the CPU priority of this process, and of all that it starts from now on.

    They get processor time only when no process that readers wait for needs it.
    """
    os.nice(NICENESS)
