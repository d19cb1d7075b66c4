"""The stores that have sent data of a family, by the partition of their records."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date

from runtime.registry.sources import FAMILIES
from serving.storage.views import ViewReader
from tally.events.identity import partition_number

# The UTC day of the first event, by family and store.
FirstDays = Mapping[str, Mapping[str, date]]
# Store ids by family.
FamilyStoreIds = dict[str, set[str]]
# Whether the stores file says when the store is open.
HoursLookup = Callable[[str], bool]


class ActiveStores:
    """The stores of each family, as of the last read."""

    def __init__(self, views: ViewReader, partitions: int) -> None:
        self._views, self._partitions = views, partitions
        # First days by family, partition number and store.
        self._first: dict[str, dict[int, dict[str, date]]] = {}

    async def read(self, families: Iterable[str]) -> None:
        """Read all stores of the families again. Raises ViewsUnreachable when a read fails."""
        self._first = {family: await self._read_partitions(family) for family in families}

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
        """The stores of a partition, by family, that should send data and never have.

        `mandatory`: stores by family; of them those of which the stores file has opening hours.
        """
        found: FamilyStoreIds = {}
        for family, named in mandatory.items():
            unknown = named - self.partition_stores(number).get(family, {}).keys()
            own = (name for name in unknown if partition_number(name, self._partitions) == number)
            if silent := {store_id for store_id in own if opens(store_id)}:
                found[family] = silent
        return found

    async def _read_partitions(self, family: str) -> dict[int, dict[str, date]]:
        # All partitions are read at once, because the table is ordered by family alone.
        found: dict[int, dict[str, date]] = {}
        for store in await self._views.active_stores(FAMILIES[family]):
            number = partition_number(store.store_id, self._partitions)
            found.setdefault(number, {})[store.store_id] = store.first_day
        return found
