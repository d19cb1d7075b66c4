"""The counters that /metrics exposes: requests, alerts, and rules that cannot be judged."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from alerting.health.gauges import (
    AlertFactSource,
    AlertGauge,
    build_alert_gauges,
    build_fact_gauges,
)
from alerting.health.service import UnevaluatedCounter
from alerting.queries.alerts import AlertFilter, AlertQueryService, AlertSearch
from runtime.http.work_pools import LOOKUPS
from serving.questions.known_stores import KnownStores
from tally.errors import ViewsUnreachable
from web.api.routes.telemetry import RequestCounts

# A scrape reads the open alerts of every store, at most this often however many clients scrape.
OPEN_SECONDS = 10.0
# The reads have a time limit because a scraper has a deadline too.
_READ_TIMEOUT_SECONDS = 5.0
_MILLIS = 1_000

log = structlog.get_logger()


@dataclass
class AlertCounters:
    """Gauges of the open alerts, from the tables, and of the alert services, from the watch."""

    alert_queries: AlertQueryService
    stores: KnownStores
    fact_source: AlertFactSource | None
    _open: Sequence[AlertGauge] = ()
    _read_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def text(self) -> str:
        """Prometheus exposition text; values that cannot be read now are left out."""
        machinery: Sequence[AlertGauge] = ()
        if self.fact_source is not None:
            facts = await LOOKUPS.run(self.fact_source.facts)
            machinery = build_fact_gauges(facts, int(time.time() * _MILLIS))
        return "".join(gauge.text for gauge in (*machinery, *await self._open_gauges()))

    async def _open_gauges(self) -> Sequence[AlertGauge]:
        async with self._lock:
            if time.monotonic() - self._read_at < OPEN_SECONDS:
                return self._open
            try:
                self._open = await asyncio.wait_for(self._read_open_gauges(), _READ_TIMEOUT_SECONDS)
            except (ViewsUnreachable, TimeoutError) as error:
                # The old numbers are dropped, because they would look current.
                self._open = ()
                log.warning("views unreachable", path="/metrics", reason=str(error))
            self._read_at = time.monotonic()
            return self._open

    async def _read_open_gauges(self) -> list[AlertGauge]:
        question = AlertSearch(await self.stores.all_ids(), AlertFilter())
        return build_alert_gauges(await self.alert_queries.read_open(question))


@dataclass(frozen=True)
class Counters:
    """All counters that /metrics exposes."""

    requests: RequestCounts
    alerts: AlertCounters
    unevaluated: UnevaluatedCounter | None

    async def text(self) -> str:
        """Prometheus exposition text."""
        # Without facts from the brokers, every rule would be counted as not judged.
        unjudged = self.unevaluated.to_text() if self.unevaluated else ""
        return self.requests.text() + await self.alerts.text() + unjudged
