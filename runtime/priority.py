"""Who comes last where processors are short: whatever the views do not wait for."""

import os

NICENESS = 10


def step_back() -> None:
    """Puts this process, and all that it starts from now on, last.

    They take processor time only when nobody that readers wait for wants it.
    """
    os.nice(NICENESS)
