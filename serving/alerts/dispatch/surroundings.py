"""What rules and stores are like, as deliveries go by it."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache

from runtime.stores import StoreEntry
from tally.alerts.delivery.deciding import RuleFacts, StoreFacts
from tally.alerts.delivery.groups import EVERYWHERE

# By id and version.
RuleLookup = Callable[[str, int], RuleFacts]
# By family and partitions.
StoreLookup = Callable[[str, Collection[int]], Collection[str]]
# By partitions: up to which instant all of their ticks are judged, ms since 1970 (UTC).
JudgedLookup = Callable[[Collection[int]], int]


def unknown_rule(_rule_id: str, _version: int) -> RuleFacts:
    """Of no rule anything is known: channels take what they ask for themselves."""
    return RuleFacts("", ())


def unknown_stores(_family: str, _partitions: Collection[int]) -> Collection[str]:
    """Of no family anything is known: three silent stores at once are a silent region."""
    return ()


def never_judged(_partitions: Collection[int]) -> int:
    """Nobody says what was judged: silences wait as long as they may."""
    return 0


class RegisteredStores:
    """The stores of the stores file, and what somebody looks up: rules, the stores of a family, and
    how far the evaluators have come."""

    def __init__(
        self,
        entries: Mapping[str, StoreEntry],
        default_zone: str,
        rules: RuleLookup,
        stores: StoreLookup = unknown_stores,
    ) -> None:
        self._entries, self._rules, self._stores = entries, rules, stores
        self.judged: JudgedLookup = never_judged
        self._default = default_zone
        self._facts = lru_cache(100_000)(self._on)

    def rule(self, rule_id: str, version: int) -> RuleFacts:
        """Of a rule, as the look-up has it."""
        return self._rules(rule_id, version)

    def store(self, store_id: str) -> StoreFacts:
        """Of a store; one that the file does not name has the default zone."""
        # As they are today: at what hour somebody is woken is no matter of the past.
        return self._facts(store_id, datetime.now(UTC).date())

    def peers(self, family: str, region: str, partitions: Collection[int]) -> int:
        """How many stores of the family lie in these partitions and in the region."""
        found = self._stores(family, partitions)
        if region == EVERYWHERE:
            return len(found)
        return sum(region in self.store(store_id).regions for store_id in found)

    def _on(self, store_id: str, day: date) -> StoreFacts:
        entry = self._entries.get(store_id, StoreEntry())
        return StoreFacts(entry.clock(self._default).zone, entry.on(day).groups)
