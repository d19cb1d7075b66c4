"""Which stores send something of a family, and since when a store that sends nothing is silent."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta

from runtime.sources import FAMILIES
from serving.alerts.evaluator.calendar import start_of_window, utc_span
from serving.alerts.evaluator.judged_rules import JudgedRules
from serving.alerts.evaluator.memory import FamilyStore, PartitionMemory
from serving.merge.views import ViewReader
from tally.alerts.tick import NO_TICK
from tally.partitions import partition_of

# By family and store the UTC day of its first event.
FirstDays = dict[str, dict[str, date]]
# By family ids of stores.
FamilyNames = dict[str, set[str]]
# Whether the stores file says when the store is open.
Opens = Callable[[str], bool]
_ONE_DAY = timedelta(days=1)


class ActiveStores:
    """The stores of each family, as they were read last."""

    def __init__(self, views: ViewReader, partitions: int) -> None:
        self._views, self._partitions = views, partitions
        # By number of the partition.
        self._first: dict[int, FirstDays] = {}
        self._families: frozenset[str] = frozenset()

    async def read(self, families: Iterable[str]) -> None:
        """All of them anew. Raises ViewsUnreachable."""
        # Of all partitions at once: the table has no other order than that of families.
        found: dict[int, FirstDays] = {}
        for family in families:
            for one in await self._views.active_stores(FAMILIES[family]):
                number = partition_of(one.store_id, self._partitions)
                of_family = found.setdefault(number, {}).setdefault(family, {})
                of_family[one.store_id] = one.first_day
        self._first, self._families = found, frozenset(families)

    def lacks(self, families: Iterable[str]) -> bool:
        """Whether nobody has asked yet for the stores of one of these."""
        return not self._families.issuperset(families)

    def of(self, number: int) -> Mapping[str, Mapping[str, date]]:
        """Of a partition by family its stores, each with the UTC day of its first event."""
        return self._first.get(number, {})

    def expected(self, number: int, rules: JudgedRules, opens: Opens) -> FamilyNames:
        """Of a partition by family the stores that should send and of which nothing has ever come.

        A silence rule names them, and the stores file says when they are open.
        """
        found: FamilyNames = {}
        for family, named in rules.expected.items():
            unknown = named - self.of(number).get(family, {}).keys()
            mine = (one for one in unknown if partition_of(one, self._partitions) == number)
            if silent := {one for one in mine if opens(one)}:
                found[family] = silent
        return found


def expected_key(family: str, store_id: str) -> FamilyStore:
    """By what a memory knows from when on a store should have sent of a family."""
    return f"{family}?", store_id


def begin_expected(
    memory: PartitionMemory, expected: Mapping[str, Iterable[str]], since: int | None = None
) -> None:
    """Notes from when on stores that should send, and never have, are silent in their open hours.

    `since`: start of a window, milliseconds since 1970 (UTC); by default the window in which that
    is seen first, so that no rule calls for alerts of the past.
    """
    start = start_of_window(memory.tick.at) if since is None else since
    for family, store_ids in expected.items():
        for store_id in store_ids:
            key = expected_key(family, store_id)
            if key not in memory.silent_from and (family, store_id) not in memory.silent_from:
                memory.begin_store(key, start)


def all_stores(
    active: Mapping[str, Iterable[str]], expected: Mapping[str, Iterable[str]]
) -> FamilyNames:
    """By family those that send, and those that should."""
    found = {family: {*store_ids} for family, store_ids in active.items()}
    for family, store_ids in expected.items():
        found.setdefault(family, set()).update(store_ids)
    return found


def begin_stores(memory: PartitionMemory, stores: Mapping[str, Mapping[str, date]]) -> None:
    """Notes from when on each store is silent where it sends nothing.

    The first event of a store says nothing of the hours before it came, and a till with a wrong
    clock has its first event in whatever month. So it begins with the window in which the store was
    seen first; those that were there before anybody looked begin with the day after their first.
    """
    is_first = memory.last == NO_TICK
    for family, first_days in stores.items():
        for store_id, first_day in first_days.items():
            if (family, store_id) not in memory.silent_from:
                day_after = utc_span(first_day + _ONE_DAY).start
                start = day_after if is_first else start_of_window(memory.tick.at)
                memory.begin_store((family, store_id), start)
