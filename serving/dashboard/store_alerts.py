"""The alerts of a store's days, asked once for all charts that are drawn of them together."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from serving.alerts.inquiry import AlertInquiry, AlertSpan, ListedAlert, window_start
from serving.dashboard.period import Period
from serving.dashboard.source import StoreChoice

# Panels of a page are renewed within moments of each other.
_KEPT_SECONDS = 10.0
_ONE_DAY = timedelta(days=1)
_Loaded = TypeVar("_Loaded")


@dataclass
class StoreAlerts:
    """Those of one store whose windows lie in the period, or in the day behind it."""

    inquiry: AlertInquiry
    chosen: StoreChoice
    period: Period
    clock: Callable[[], float] = time.monotonic
    _read: tuple[float, list[ListedAlert]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._one = asyncio.Lock()

    async def beside(
        self, load: Callable[[], Awaitable[_Loaded]]
    ) -> tuple[_Loaded, list[ListedAlert]]:
        """What is loaded, with the alerts, newest first. Raises what loading and reading raise."""
        loaded, alerts = await asyncio.gather(load(), self._alerts())
        return loaded, alerts

    def of_period(self, alerts: list[ListedAlert]) -> list[ListedAlert]:
        """Those of the period alone."""
        start, end = self.period.of_store(self.chosen.store)
        return [one for one in alerts if start <= window_start(one) < end]

    async def _alerts(self) -> list[ListedAlert]:
        async with self._one:
            if self._read is not None and self.clock() - self._read[0] < _KEPT_SECONDS:
                return self._read[1]
            start, end = self.period.of_store(self.chosen.store)
            # The day of a store may begin hours after midnight, and end in the next one.
            span = AlertSpan(start, end + _ONE_DAY)
            store_id, now = self.chosen.store.store_id, datetime.now(UTC)
            found = await self.inquiry.of_windows(store_id, span, now)
            self._read = self.clock(), found
            return found
