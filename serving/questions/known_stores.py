"""The stores that exist: those that have sent data, and those of the stores file."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from runtime.registry.sources import FAMILIES
from serving.questions.stores import StoreRegistry
from serving.storage.tables import Activity
from serving.storage.views import ViewReader
from tally.errors import UnknownName
from tally.events.identity import partition_number

# \Z and not $, which lets an end of line pass.
_STORE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z", re.ASCII)


class KnownStores:
    """Remembers the stores that it has seen, for a store that has rows keeps them."""

    def __init__(self, views: ViewReader, registry: StoreRegistry) -> None:
        self._views, self._registry = views, registry
        self._known_ids: set[str] = set(registry.listed)

    async def check(self, store_ids: list[str]) -> None:
        """Raise UnknownName unless all are known, ViewsUnreachable when the views do not answer."""
        for store_id in store_ids:
            # A text that is no valid id is refused without a read.
            if not _STORE_ID.match(store_id) or not await self._is_known(store_id):
                why = "no event of it has arrived yet (GET /v1/stores)"
                raise UnknownName("store", f"there is no store {store_id[:64]!r}: {why}")

    async def _is_known(self, store_id: str) -> bool:
        # Looked up each time, and alone, so that the first receipt of a new store shows at once.
        if store_id in self._known_ids:
            return True
        if has_events := await self._views.has_events(store_id, [*FAMILIES.values()]):
            # Only existing stores are remembered: made-up ids would fill the memory.
            self._known_ids.add(store_id)
        return has_events

    async def all_ids(self) -> list[str]:
        """Every known id, ascending."""
        return sorted(self._known_ids | (await self._active()).keys())

    async def entries(self) -> list[dict[str, Any]]:
        """The fields that /v1/stores lists of each store, by store_id; days (UTC) may be null."""
        active, found = await self._active(), []
        for store_id in sorted(active.keys() | self._registry.listed.keys()):
            store, days = self._registry.store(store_id), active.get(store_id)
            entry = {
                "store_id": store_id,
                "name": store.name,
                "tz": store.tz,
                "currency": store.currency,
                "first_day": days and days.first_day,
                "last_day": days and days.last_day,
            }
            found.append(entry)
        return found

    async def _active(self) -> dict[str, Activity]:
        active = {store.store_id: store for store in await self._views.activity()}
        self._known_ids |= active.keys()
        return active


# The UTC day of the first event, by family and store.
FirstDays = Mapping[str, Mapping[str, date]]
# Store ids by family.
FamilyStoreIds = dict[str, set[str]]
HoursLookup = Callable[[str], bool]


class ActiveStores:
    """The stores of each family, as of the last read."""

    def __init__(self, views: ViewReader, partitions: int) -> None:
        self._views, self._partitions = views, partitions
        # First days by family, partition number and store.
        self._first: dict[str, dict[int, dict[str, date]]] = {}

    async def read(self, families: Iterable[str]) -> None:
        """Read all stores of the families again. Raises ViewsUnreachable when a read fails."""
        found: dict[str, dict[int, dict[str, date]]] = {}
        for family in families:
            by_partition = found[family] = dict[int, dict[str, date]]()
            # All partitions are read at once, because the table is ordered by family alone.
            for store in await self._views.active_stores(FAMILIES[family]):
                number = partition_number(store.store_id, self._partitions)
                by_partition.setdefault(number, {})[store.store_id] = store.first_day
        self._first = found

    def lacks(self, families: Iterable[str]) -> bool:
        """Whether the stores of one of these families were not read yet."""
        return not self._first.keys() >= {*families}

    def partition_stores(self, number: int) -> FirstDays:
        """The stores of a partition by family, each with the UTC day of its first event."""
        return {
            family: stores[number] for family, stores in self._first.items() if number in stores
        }

    def missing_stores(
        self, number: int, mandatory: Mapping[str, frozenset[str]], opens: HoursLookup
    ) -> FamilyStoreIds:
        """The mandatory stores of a partition, by family, that never sent data and have hours."""
        found: FamilyStoreIds = {}
        for family, named in mandatory.items():
            unknown = named - self.partition_stores(number).get(family, {}).keys()
            own = (name for name in unknown if partition_number(name, self._partitions) == number)
            if silent := {store_id for store_id in own if opens(store_id)}:
                found[family] = silent
        return found
