"""The stores that send data of a family; when over half of a region's are silent, so is it."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import structlog

from runtime.registry.sources import FAMILIES
from serving.questions.active_stores import read_active_stores
from serving.storage.protocol import ViewReader
from tally.errors import ViewsUnreachable

# A store that opens or closes within this time hardly changes the share of silent stores.
CACHE_SECONDS = 600.0
# The pause before Cassandra is asked again while it does not answer: each attempt takes a while.
_RETRY_SECONDS = 30.0

log = structlog.get_logger()


class _CachedStores(NamedTuple):
    """The stores of a family by partition, and how long they remain valid.

    `until`: seconds of the clock.
    """

    stores: Mapping[int, Iterable[str]]
    until: float


class FamilyStoreCache:
    """The stores of each family in Cassandra, read on demand.

    `now`: seconds of a monotonic clock.
    """

    def __init__(
        self, views: ViewReader, partitions: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._views, self._partitions, self._now = views, partitions, now
        self._runner = asyncio.Runner()
        self._cache: dict[str, _CachedStores] = {}

    def find_stores(self, family: str, partitions: Collection[int]) -> list[str]:
        """The stores of the family in these partitions.

        Empty for an unknown family, or while Cassandra has never answered.
        """
        if family not in FAMILIES:
            return []
        if family not in self._cache or self._cache[family].until <= self._now():
            self._cache[family] = self._read(family)
        stores = self._cache[family].stores
        return [store_id for number in partitions for store_id in stores.get(number, ())]

    def close(self) -> None:
        """Close the event loop."""
        self._runner.close()

    def _read(self, family: str) -> _CachedStores:
        try:
            reading = read_active_stores(self._views, family, self._partitions)
            found = self._runner.run(reading)
        except ViewsUnreachable as error:
            # Alerts are sent all the same: the stores of the last read are near enough.
            log.warning("stores not known", family=family, reason=str(error.__cause__ or error))
            before = self._cache.get(family, _CachedStores({}, 0))
            return before._replace(until=self._now() + _RETRY_SECONDS)
        return _CachedStores(found, self._now() + CACHE_SECONDS)
