"""What the event loop does beside the requests: it measures how late it is, and destroys keys."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog
from prometheus_client import CollectorRegistry, Histogram

from runtime.records.device_keys import DeviceKeys

# Well below a delay that a sender would notice.
_MEASURE_EVERY_SECONDS = 0.02
_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

_log = structlog.get_logger()


class LoopLag:
    """A histogram of how late a task of the loop wakes up, in seconds: this delays every sender."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name, what = "tally_gateway_loop_lag_seconds", "How late a task of the event loop wakes up"
        self._seconds = Histogram(name, what, buckets=_BOUNDS, registry=registry)

    async def measure(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _MEASURE_EVERY_SECONDS
            await asyncio.sleep(_MEASURE_EVERY_SECONDS)
            self.add(max(0.0, loop.time() - due))

    def add(self, seconds: float) -> None:
        """Add one measurement, in seconds."""
        self._seconds.observe(seconds)


async def destroy_keys(
    keys: DeviceKeys,
    every_seconds: float = 60.0,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Destroy expired keys at intervals until cancelled; what fails is logged, and tried again."""
    while True:
        try:
            # A slow disk must not block the event loop.
            destroyed = await asyncio.to_thread(keys.destroy, now())
        except OSError as error:
            _log.error("keys not destroyed", reason=str(error), next_try_seconds=every_seconds)
        else:
            if destroyed:
                _log.info("keys destroyed", count=destroyed)
        await asyncio.sleep(every_seconds)
