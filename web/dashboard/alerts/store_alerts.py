"""The alerts of a store's days, read once for all charts that are drawn with them."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from alerting.queries.alerts import AlertQueryService, AlertSpan, ListedAlert, window_start
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import StoreChoice

# The panels of a page are refreshed within moments of each other and share one read.
_CACHE_SECONDS = 10.0
_ONE_DAY = timedelta(days=1)
_Loaded = TypeVar("_Loaded")


@dataclass
class StoreAlerts:
    """The alerts of one store whose windows lie in the period or on the day after it."""

    alert_queries: AlertQueryService
    chosen: StoreChoice
    period: Period
    clock: Callable[[], float] = time.monotonic
    _cache: tuple[float, list[ListedAlert]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()

    async def load_with_alerts(
        self, load: Callable[[], Awaitable[_Loaded]]
    ) -> tuple[_Loaded, list[ListedAlert]]:
        """The loaded value, and the alerts, newest first. Raises what loading and reading raise."""
        loaded, alerts = await asyncio.gather(load(), self._alerts())
        return loaded, alerts

    def filter_period(self, alerts: list[ListedAlert]) -> list[ListedAlert]:
        """The alerts whose windows lie in the period itself."""
        start, end = self.period.store_span(self.chosen.store)
        return [alert for alert in alerts if start <= window_start(alert) < end]

    async def _alerts(self) -> list[ListedAlert]:
        async with self._lock:
            if self._cache is not None and self.clock() - self._cache[0] < _CACHE_SECONDS:
                return self._cache[1]
            start, end = self.period.store_span(self.chosen.store)
            # A store's day may begin hours after midnight and end in the next day.
            span = AlertSpan(start, end + _ONE_DAY)
            store_id, now = self.chosen.store.store_id, datetime.now(UTC)
            found = await self.alert_queries.read_windows(store_id, span, now)
            self._cache = self.clock(), found
            return found
