"""Measures how long the event loop is blocked, because that delays every sender."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, Histogram

# Well below a delay that a sender would notice.
_EVERY_SECONDS = 0.02
_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

_DESCRIPTIONS = {
    "unread_messages": "Messages that wait to be normalised",
    "check_seconds": "How long the check under way has run",
}


def add_gauge(registry: CollectorRegistry, name: str, read: Callable[[], float]) -> None:
    """Add a gauge of the gateway whose value is read for each answer."""
    gauge = Gauge(f"tally_gateway_{name}", _DESCRIPTIONS[name], registry=registry)
    gauge.set_function(read)


class LoopLag:
    """A histogram of how late a task of the loop wakes up, in seconds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "tally_gateway_loop_lag_seconds",
            "How late a task of the event loop wakes up",
            buckets=_BOUNDS,
            registry=registry,
        )

    async def measure(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            self.add(max(0.0, loop.time() - due))

    def add(self, seconds: float) -> None:
        """Add one measurement, in seconds."""
        self._seconds.observe(seconds)
