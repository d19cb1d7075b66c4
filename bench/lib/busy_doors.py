"""People counters of stores that get busier, and the times at which they cross thresholds."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from bench.lib.subscribers import ThresholdCrossing
from tally.time.instants import format_utc
from tally.time.windows import window_start

STORES, DEVICES = 50, 8
# Each of these numbers of visitors has its own rule that the store is busy.
THRESHOLDS = range(100, 4_100, 100)


@dataclass
class BusyDoors:
    """The people counters of all stores, and their counts in the current window.

    `crossings`: when the gateway acknowledged each crossing interval, in monotonic seconds.
    """

    chance: Random = field(default_factory=lambda: Random(13))
    window: datetime = datetime.min
    visitors: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    crossings: dict[ThresholdCrossing, float] = field(default_factory=dict)
    in_flight: list[ThresholdCrossing] = field(default_factory=list)

    def head_start(self) -> list[bytes]:
        """A different first interval per store, so that not all cross a threshold at once."""
        starts = ((f"s{number}", number * THRESHOLDS.step // STORES) for number in range(STORES))
        return [self.interval(*start) for start in starts]

    def load(self, count: int, visitors: int) -> list[bytes]:
        """This many intervals of random stores."""
        chosen = (f"s{self.chance.randrange(STORES)}" for _ in range(count))
        return [self.interval(store, visitors) for store in chosen]

    def interval(self, store: str, visitors: int) -> bytes:
        """One second at one of the store's doors, as a counter sends it."""
        now = datetime.now(UTC)
        if (window := window_start(now)) != self.window:
            self.window, self.visitors, self.events = window, Counter(), Counter()
        happened_at, before = format_utc(now), self.visitors[store]
        self.visitors[store] += visitors
        self.events[store] += 1
        for threshold in THRESHOLDS:
            if before < threshold <= self.visitors[store]:
                crossed = ThresholdCrossing(
                    store, rule_id(threshold), happened_at, self.events[store]
                )
                self.in_flight.append(crossed)
        door = f"door-{self.events[store] % DEVICES}"
        message = {"store_id": store, "device_id": door, "happened_at": happened_at}
        counted = {"interval_seconds": 1, "in": visitors, "out": 1}
        return json.dumps({**message, **counted}).encode()

    def acknowledge(self) -> None:
        """Record that the gateway has accepted the intervals under way."""
        self.crossings |= dict.fromkeys(self.in_flight, time.monotonic())
        self.in_flight.clear()


def rule_id(threshold: int) -> str:
    """The id of a threshold's rule."""
    return f"visitors-{threshold}"
