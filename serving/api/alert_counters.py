"""The counters that /metrics exposes: requests, alerts, and rules that cannot be judged."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from runtime.work_pools import LOOKS
from serving.alerts.gauges import AlertFactSource, AlertGauge, gauges_of_alerts, gauges_of_facts
from serving.alerts.health.counter import UnjudgedCounter
from serving.alerts.inquiry import AlertFilter, AlertInquiry, AlertQuestion
from serving.api.telemetry import RequestCounts
from serving.query.known_stores import KnownStores
from tally.errors import ViewsUnreachable

# A scrape reads the open alerts of every store, at most this often however many clients scrape.
OPEN_SECONDS = 10.0
# The reads have a time limit because a scraper has a deadline too.
_PATIENCE_SECONDS = 5.0
_MILLIS = 1_000

log = structlog.get_logger()


@dataclass
class AlertCounters:
    """Gauges of the open alerts, from the tables, and of the alert services, from the watch."""

    inquiry: AlertInquiry
    stores: KnownStores
    watch: AlertFactSource | None
    _open: Sequence[AlertGauge] = ()
    _read_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def text(self) -> str:
        """Prometheus exposition text; values that cannot be read now are left out."""
        machinery: Sequence[AlertGauge] = ()
        if self.watch is not None:
            facts = await LOOKS.run(self.watch.facts)
            machinery = gauges_of_facts(facts, int(time.time() * _MILLIS))
        return "".join(gauge.text for gauge in (*machinery, *await self._open_gauges()))

    async def _open_gauges(self) -> Sequence[AlertGauge]:
        async with self._lock:
            if time.monotonic() - self._read_at < OPEN_SECONDS:
                return self._open
            try:
                self._open = await asyncio.wait_for(self._read_open_gauges(), _PATIENCE_SECONDS)
            except (ViewsUnreachable, TimeoutError) as error:
                # The old numbers are dropped, because they would look current.
                self._open = ()
                log.warning("views unreachable", path="/metrics", reason=str(error))
            self._read_at = time.monotonic()
            return self._open

    async def _read_open_gauges(self) -> list[AlertGauge]:
        question = AlertQuestion(await self.stores.all_ids(), AlertFilter())
        return gauges_of_alerts(await self.inquiry.open(question))


@dataclass(frozen=True)
class Counters:
    """All counters that /metrics exposes."""

    requests: RequestCounts
    alerts: AlertCounters
    unjudged: UnjudgedCounter | None

    async def text(self) -> str:
        """Prometheus exposition text."""
        # Without facts from the brokers, every rule would be counted as not judged.
        unjudged = self.unjudged.text() if self.unjudged else ""
        return self.requests.text() + await self.alerts.text() + unjudged
