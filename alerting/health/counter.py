"""The gauge of rules that cannot be judged, recounted every few minutes in the background."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from alerting.health.gauges import AlertGauge
from alerting.health.service import RuleHealthService
from runtime.http.exposition import MetricSample
from serving.questions.known_stores import KnownStores
from tally.errors import ViewsUnreachable

# Each count reads the newest day of every store.
COUNT_SECONDS = 300.0
NAME = "tally_rules_unjudged"

log = structlog.get_logger()


@dataclass
class UnevaluatedCounter:
    """The last count of stores in which each rule cannot be judged, by reason."""

    health: RuleHealthService
    stores: KnownStores
    _samples: Sequence[MetricSample] = ()
    _counting: asyncio.Task[None] | None = field(default=None, init=False)
    _started_at: float = field(default=float("-inf"), init=False)

    def to_text(self) -> str:
        """Prometheus exposition text of the last count; starts the next count when it is due.

        The text is empty until the first count ends. No scrape waits for a count.
        """
        is_running = self._counting is not None and not self._counting.done()
        if not is_running and time.monotonic() - self._started_at >= COUNT_SECONDS:
            self._started_at = time.monotonic()
            self._counting = asyncio.get_running_loop().create_task(self._count())
        return AlertGauge(NAME, self._samples).text

    async def wait_idle(self) -> None:
        """Wait until no count is running."""
        if self._counting is not None:
            await self._counting

    async def _count(self) -> None:
        try:
            found = await self.health.count_unevaluated(await self.stores.all_ids())
        except ViewsUnreachable as error:
            # An old number would look like a current one.
            self._samples = ()
            log.warning("views unreachable", path="/metrics", reason=str(error))
            return
        self._samples = [
            ({"rule": rule_id, "reason": reason}, float(count))
            for (rule_id, reason), count in sorted(found.items())
        ]
