"""Measures how long the event loop is blocked, because that delays every sender."""

import asyncio

# Well below a delay that a sender would notice.
_EVERY_SECONDS = 0.02
_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class LoopLag:
    """A histogram of how late a task of the loop wakes up, in seconds."""

    def __init__(self) -> None:
        self._counts = [0] * len(_BOUNDS)
        self._total = 0
        self._seconds = 0.0

    async def measure(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            wanted = loop.time() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            self.add(max(0.0, loop.time() - wanted))

    def add(self, seconds: float) -> None:
        """Add one measurement, in seconds."""
        self._total += 1
        self._seconds += seconds
        for number, bound in enumerate(_BOUNDS):
            self._counts[number] += seconds <= bound

    def text(self) -> str:
        """Prometheus exposition text."""
        name = "tally_gateway_loop_lag_seconds"
        buckets = [
            f'{name}_bucket{{le="{bound}"}} {count}'
            for bound, count in zip(_BOUNDS, self._counts, strict=True)
        ]
        total = [
            f'{name}_bucket{{le="+Inf"}} {self._total}',
            f"{name}_sum {self._seconds:.6f}",
            f"{name}_count {self._total}",
        ]
        return "\n".join([f"# TYPE {name} histogram", *buckets, *total, ""])
