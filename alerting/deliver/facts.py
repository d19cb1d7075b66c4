"""The facts about rules and stores that decide deliveries."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache

from alerting.deliver.engine.groups import EVERYWHERE
from alerting.deliver.state.routing import RuleFacts, StoreFacts
from runtime.registry.stores import StoreEntry

# Takes the rule's id and version.
RuleLookup = Callable[[str, int], RuleFacts]
# Takes a family and partitions.
StoreLookup = Callable[[str, Collection[int]], Collection[str]]
# Takes partitions; returns the instant up to which all their ticks are judged, ms since 1970 (UTC).
ProgressLookup = Callable[[Collection[int]], int]


def unknown_rule(_rule_id: str, _version: int) -> RuleFacts:
    """Facts for when no rule is known: channels receive what they ask for themselves."""
    return RuleFacts("", ())


def unknown_stores(_family: str, _partitions: Collection[int]) -> Collection[str]:
    """No stores of any family: three stores silent at once then count as a silent region."""
    return ()


def never_evaluated(_partitions: Collection[int]) -> int:
    """Always 0: without knowledge of judged ticks, silences wait up to their limit."""
    return 0


class RegisteredStores:
    """The stores of the stores file, with look-ups for the other facts.

    The look-ups give rules, the stores of a family, and how far the evaluators have judged.
    """

    def __init__(
        self,
        entries: Mapping[str, StoreEntry],
        default_zone: str,
        rules: RuleLookup,
        stores: StoreLookup = unknown_stores,
    ) -> None:
        self._entries, self._rules, self._stores = entries, rules, stores
        self.evaluation_progress: ProgressLookup = never_evaluated
        self._default = default_zone
        self._facts = lru_cache(100_000)(self._facts_on)

    def rule(self, rule_id: str, version: int) -> RuleFacts:
        """The facts of a rule version, from the look-up."""
        return self._rules(rule_id, version)

    def store(self, store_id: str) -> StoreFacts:
        """The facts of a store; a store missing from the file has the default time zone."""
        # The facts of today decide: quiet hours apply to the present, not to the past.
        return self._facts(store_id, datetime.now(UTC).date())

    def count_peers(self, family: str, region: str, partitions: Collection[int]) -> int:
        """How many stores of the family lie in these partitions and in the region."""
        found = self._stores(family, partitions)
        if region == EVERYWHERE:
            return len(found)
        return sum(region in self.store(store_id).regions for store_id in found)

    def _facts_on(self, store_id: str, day: date) -> StoreFacts:
        entry = self._entries.get(store_id, StoreEntry())
        return StoreFacts(entry.clock(self._default).zone, entry.valid_on(day).groups)
