"""Which stores send anything of a family: of them a silent region has more than half."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from runtime.sources import FAMILIES
from serving.merge.views import ViewReader
from tally.errors import ViewsUnreachable
from tally.partitions import partition_of

# A store that is new, or was closed, makes no difference to a half within that time.
KNOWN_SECONDS = 600.0
# While nobody answers, this is how often somebody is asked: each time takes a while.
_AGAIN_SECONDS = 30.0

log = structlog.get_logger()


class _Known(NamedTuple):
    """The stores of a family by partition, and until when they are taken for true."""

    stores: frozenset[tuple[str, int]]
    until: float


class StoresOfFamilies:
    """The stores of each family as Cassandra has them, read when somebody asks.

    `now`: seconds on a clock of its own.
    """

    def __init__(
        self, views: ViewReader, partitions: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._views, self._partitions, self._now = views, partitions, now
        self._runner = asyncio.Runner()
        self._known: dict[str, _Known] = {}

    def of(self, family: str, partitions: Collection[int]) -> list[str]:
        """The stores of these partitions; none of a family that there is not, or while Cassandra
        has never answered."""
        if family not in FAMILIES:
            return []
        if family not in self._known or self._known[family].until <= self._now():
            self._known[family] = self._read(family)
        stores = self._known[family].stores
        return [store_id for store_id, number in stores if number in partitions]

    def close(self) -> None:
        """Ends what it has begun."""
        self._runner.close()

    def _read(self, family: str) -> _Known:
        try:
            found = self._runner.run(self._views.active_stores(FAMILIES[family]))
        except ViewsUnreachable as error:
            # No reason to tell nobody of anything: what was true before is near enough.
            log.warning("stores not known", family=family, reason=str(error.__cause__ or error))
            before = self._known.get(family, _Known(frozenset(), 0))
            return before._replace(until=self._now() + _AGAIN_SECONDS)
        numbered = ((one.store_id, partition_of(one.store_id, self._partitions)) for one in found)
        return _Known(frozenset(numbered), self._now() + KNOWN_SECONDS)
