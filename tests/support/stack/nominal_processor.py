"""How slow this machine is now, so that limits in processor seconds hold on any machine.

The limits are written for a nominal processor, which makes 60,000 small dictionaries in
NOMINAL_SECONDS. That is work like that of a parser: it allocates, and does not fit into a cache. A
loop of additions would not do: on a machine that other work shares it takes 1.3 times as long, and
the same parser three to four times.
"""

import gc
import time
from collections.abc import Callable
from statistics import mean

ENTRIES, TRIES = 60_000, 3
ROUNDS = 5  # of measurements before a cost is called too large
# Of a quick desktop processor.
NOMINAL_SECONDS = 0.012


def slowness() -> float:
    """Processor seconds here for one nominal second, now; at least 1, so that a quicker machine
    has no stricter limits."""
    was_enabled = gc.isenabled()
    gc.disable()
    taken = mean(_seconds() for _ in range(TRIES))
    if was_enabled:
        gc.enable()
    return max(1.0, taken / NOMINAL_SECONDS)


def _seconds() -> float:
    began = time.thread_time()
    made = [{"a": number, "b": (number,), "c": str(number)} for number in range(ENTRIES)]
    taken = time.thread_time() - began
    assert len(made) == ENTRIES
    return taken


def lowest_ratio(cost: Callable[[], float], yardstick: Callable[[], float], limit: float) -> float:
    """The lowest cost()/yardstick() of up to five rounds; the first below the limit ends them.

    Other work on the machine makes one of two measurements look larger now and then. A cost that
    is too large is so in every round.
    """
    found: list[float] = []
    while len(found) < ROUNDS and min(found, default=limit) >= limit:
        found.append(cost() / yardstick())
    return min(found)
