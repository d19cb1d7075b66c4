"""The stores that send data of a family, and the time from which a store without data is silent."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta

from alerting.evaluate.scope.rule_set import RuleSet
from alerting.evaluate.snapshot.calendar import start_of_window, utc_span
from alerting.evaluate.state.memory import FamilyStore, PartitionMemory
from runtime.registry.sources import FAMILIES
from serving.storage.views import ViewReader
from tally.alerts.tick import NO_TICK
from tally.events.identity import partition_number

# The UTC day of the first event, by family and store.
FirstDays = dict[str, dict[str, date]]
# Store ids by family.
FamilyStoreIds = dict[str, set[str]]
# Whether the stores file says when the store is open.
HoursLookup = Callable[[str], bool]
_ONE_DAY = timedelta(days=1)


class ActiveStores:
    """The stores of each family, as of the last read."""

    def __init__(self, views: ViewReader, partitions: int) -> None:
        self._views, self._partitions = views, partitions
        # First days by partition number.
        self._first: dict[int, FirstDays] = {}
        self._families: frozenset[str] = frozenset()

    async def read(self, families: Iterable[str]) -> None:
        """Read all stores of the families again. Raises ViewsUnreachable when a read fails."""
        # All partitions are read at once, because the table is ordered by family alone.
        found: dict[int, FirstDays] = {}
        for family in families:
            for store in await self._views.active_stores(FAMILIES[family]):
                number = partition_number(store.store_id, self._partitions)
                of_family = found.setdefault(number, {}).setdefault(family, {})
                of_family[store.store_id] = store.first_day
        self._first, self._families = found, frozenset(families)

    def lacks(self, families: Iterable[str]) -> bool:
        """Whether the stores of one of these families were not read yet."""
        return not self._families.issuperset(families)

    def partition_stores(self, number: int) -> Mapping[str, Mapping[str, date]]:
        """The stores of a partition by family, each with the UTC day of its first event."""
        return self._first.get(number, {})

    def missing_stores(self, number: int, rules: RuleSet, opens: HoursLookup) -> FamilyStoreIds:
        """The stores of a partition, by family, that should send data and never have.

        A silence rule names them, and the stores file has their opening hours.
        """
        found: FamilyStoreIds = {}
        for family, named in rules.mandatory_stores.items():
            unknown = named - self.partition_stores(number).get(family, {}).keys()
            own = (name for name in unknown if partition_number(name, self._partitions) == number)
            if silent := {store_id for store_id in own if opens(store_id)}:
                found[family] = silent
        return found


def missing_store_key(family: str, store_id: str) -> FamilyStore:
    """The key under which a memory keeps from when on a store should send data of a family."""
    return f"{family}?", store_id


def begin_missing_stores(
    memory: PartitionMemory, expected: Mapping[str, Iterable[str]], since: int | None = None
) -> None:
    """Note from when on stores that should send, and never have, are silent in their open hours.

    `since`: start of a window, milliseconds since 1970 (UTC); the default is the current window, so
    that no rule calls for alerts of the past.
    """
    start = start_of_window(memory.tick.at) if since is None else since
    for family, store_ids in expected.items():
        for store_id in store_ids:
            key = missing_store_key(family, store_id)
            if key not in memory.silent_from and (family, store_id) not in memory.silent_from:
                memory.begin_store(key, start)


def all_stores(
    active: Mapping[str, Iterable[str]], expected: Mapping[str, Iterable[str]]
) -> FamilyStoreIds:
    """The stores by family that send data or should send it."""
    found = {family: {*store_ids} for family, store_ids in active.items()}
    for family, store_ids in expected.items():
        found.setdefault(family, set()).update(store_ids)
    return found


def begin_stores(memory: PartitionMemory, stores: Mapping[str, Mapping[str, date]]) -> None:
    """Note from when on each store is silent where it sends nothing.

    The first event of a store says nothing about the hours before it arrived, and a till with a
    wrong clock may have its first event in any month. So a store begins with the window in which it
    was first seen; stores known at the evaluator's first pass begin with the day after their first
    event.
    """
    is_first = memory.last_tick == NO_TICK
    for family, first_days in stores.items():
        for store_id, first_day in first_days.items():
            if (family, store_id) not in memory.silent_from:
                day_after = utc_span(first_day + _ONE_DAY).start
                start = day_after if is_first else start_of_window(memory.tick.at)
                memory.begin_store((family, store_id), start)
