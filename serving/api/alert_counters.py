"""The part of /metrics that is about alerts."""

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

# Each look asks for the open alerts of every store: however many scrape, no more often than this.
OPEN_SECONDS = 10.0
# Who scrapes has a deadline too.
_PATIENCE_SECONDS = 5.0
_MILLIS = 1_000

log = structlog.get_logger()


@dataclass
class AlertCounters:
    """What is open, by the tables, and how the machinery is, by the watch."""

    inquiry: AlertInquiry
    stores: KnownStores
    watch: AlertFactSource | None
    _open: Sequence[AlertGauge] = ()
    _looked_at: float = float("-inf")
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def text(self) -> str:
        """Prometheus exposition text; what nobody can say now is left out."""
        machinery: Sequence[AlertGauge] = ()
        if self.watch is not None:
            facts = await LOOKS.run(self.watch.facts)
            machinery = gauges_of_facts(facts, int(time.time() * _MILLIS))
        return "".join(one.text for one in (*machinery, *await self._standing()))

    async def _standing(self) -> Sequence[AlertGauge]:
        async with self._looking:
            if time.monotonic() - self._looked_at < OPEN_SECONDS:
                return self._open
            try:
                self._open = await asyncio.wait_for(self._counted(), _PATIENCE_SECONDS)
            except (ViewsUnreachable, TimeoutError) as error:
                # An old number would look like one of now.
                self._open = ()
                log.warning("views unreachable", path="/metrics", reason=str(error))
            self._looked_at = time.monotonic()
            return self._open

    async def _counted(self) -> list[AlertGauge]:
        every = AlertQuestion(await self.stores.all_ids(), AlertFilter())
        return gauges_of_alerts(await self.inquiry.open(every))


@dataclass(frozen=True)
class Counters:
    """All that /metrics says."""

    requests: RequestCounts
    alerts: AlertCounters
    unjudged: UnjudgedCounter | None

    async def text(self) -> str:
        """Prometheus exposition text."""
        # Without a word of the brokers no rule would be judged.
        unjudged = self.unjudged.text() if self.unjudged else ""
        return self.requests.text() + await self.alerts.text() + unjudged
