"""The versions of the rules, for callers on an event loop."""

import asyncio
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException

from alerting.rules.rule import RuleVersion
from alerting.rules.versions import RuleHistory, RuleSource, StoredRule
from runtime.http.work_pools import WorkPool
from tally.errors import StackError, UnknownName, ViewsUnreachable

# The maximum age of rules in an answer: of many concurrent requests, one reads the topic's end.
CACHE_SECONDS = 1.0

# Raises RuleConflict when another writer was first with one of them, and SendFailed.
RuleWriter = Callable[[Sequence[StoredRule]], list[RuleVersion]]


class RuleRepository:
    """The rules, for callers on an event loop; without a writer none can be written.

    All concurrent callers share one read of the topic. `seconds`: a monotonic clock.
    """

    def __init__(
        self,
        source: RuleSource,
        writer: RuleWriter | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._writer, self._seconds = source, writer, seconds
        # One thread, because each read continues where the last one stopped.
        self._pool = WorkPool("rules", 1)
        self._reading: asyncio.Future[RuleHistory] | None = None
        self._cached: RuleHistory | None = None
        self._cached_at = 0.0

    async def read(self) -> RuleHistory:
        """The existing versions, at most CACHE_SECONDS old. Raises ViewsUnreachable."""
        if self._cached is not None and self._seconds() - self._cached_at <= CACHE_SECONDS:
            return self._cached
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self.read_now())
        # The first caller may be cancelled; the others still need the answer.
        return await asyncio.shield(self._reading)

    async def read_now(self) -> RuleHistory:
        """The versions that exist now, read for this caller. Raises ViewsUnreachable."""
        return await self._pool.run(self._read)

    async def versions(self, rule_id: str) -> tuple[RuleVersion, ...]:
        """The versions of one rule, ascending. Raises UnknownName, ViewsUnreachable."""
        found = (await self.read()).versions.get(rule_id)
        if not found:
            raise UnknownName(
                "rule_id", f"there is no rule {rule_id[:64]!r}; GET /v1/rules lists them"
            )
        return found

    async def write(self, stored: StoredRule) -> RuleVersion:
        """Write a version and return the version in force once it is read back.

        Raises RuleConflict, SendFailed, ViewsUnreachable.
        """
        (version,) = await self._pool.run(self._write, stored)
        return version

    def _write(self, stored: StoredRule) -> list[RuleVersion]:
        if self._writer is None:
            raise ViewsUnreachable("there is no topic of rules here")
        # The cached rules do not have the new version.
        self._cached = None
        try:
            return self._writer([stored])
        except (KafkaException, StackError) as error:
            raise ViewsUnreachable(
                "the rule cannot be written; look at `tally status`, then at what holds"
            ) from error

    def _read(self) -> RuleHistory:
        began = self._seconds()
        try:
            chains = self._source.read()
        except (KafkaException, StackError) as error:
            raise ViewsUnreachable(
                "the rules cannot be read; look at `tally status` and ask again"
            ) from error
        self._cached, self._cached_at = chains, began
        return chains
