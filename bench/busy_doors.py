"""People counters of stores that get busier and busier, and when each came to which threshold."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from bench.subscribers import CrossedBy
from tally.instants import instant_text
from tally.windows import window_start

STORES, DEVICES = 50, 8
# A store is busy at each of these numbers of visitors anew, by a rule of its own.
THRESHOLDS = range(100, 4_100, 100)


@dataclass
class BusyDoors:
    """The people counters of all stores, and what they have counted of the window that is now.

    `crossed`: with when the gateway had acknowledged it, monotonic seconds.
    """

    chance: Random = field(default_factory=lambda: Random(13))
    window: datetime = datetime.min
    visitors: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    crossed: dict[CrossedBy, float] = field(default_factory=dict)
    under_way: list[CrossedBy] = field(default_factory=list)

    def head_start(self) -> list[bytes]:
        """An interval of each store, so that they do not come to a threshold all at once."""
        starts = ((f"s{number}", number * THRESHOLDS.step // STORES) for number in range(STORES))
        return [self.interval(*one) for one in starts]

    def load(self, count: int, visitors: int) -> list[bytes]:
        """So many intervals of stores by chance."""
        chosen = (f"s{self.chance.randrange(STORES)}" for _ in range(count))
        return [self.interval(store, visitors) for store in chosen]

    def interval(self, store: str, visitors: int) -> bytes:
        """A second at one of the store's doors, as a counter sends it."""
        now = datetime.now(UTC)
        if (window := window_start(now)) != self.window:
            self.window, self.visitors, self.events = window, Counter(), Counter()
        happened_at, before = instant_text(now), self.visitors[store]
        self.visitors[store] += visitors
        self.events[store] += 1
        for one in THRESHOLDS:
            if before < one <= self.visitors[store]:
                crossed = CrossedBy(store, rule_id(one), happened_at, self.events[store])
                self.under_way.append(crossed)
        door = f"door-{self.events[store] % DEVICES}"
        told = {"store_id": store, "device_id": door, "happened_at": happened_at}
        counted = {"interval_seconds": 1, "in": visitors, "out": 1}
        return json.dumps({**told, **counted}).encode()

    def acknowledge(self) -> None:
        """What was under way has been taken by the gateway."""
        self.crossed |= dict.fromkeys(self.under_way, time.monotonic())
        self.under_way.clear()


def rule_id(threshold: int) -> str:
    """The rule of a threshold."""
    return f"visitors-{threshold}"
