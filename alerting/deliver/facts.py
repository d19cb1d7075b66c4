"""The facts about rules and stores that decide deliveries."""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Protocol

import structlog
from confluent_kafka import KafkaException

from alerting.deliver.state.routing import StoreFacts
from alerting.rules.rule import RuleVersion
from alerting.rules.versions import RuleHistory, RuleSource
from runtime.registry.stores import StoreEntry
from tally.errors import StackError, TransactionAborted

# The pause after a failed read, before the whole batch is processed again.
_RETRY_SECONDS = 1.0
# Takes the rule's id and version; returns the channels that it names.
RuleLookup = Callable[[str, int], Collection[str]]

log = structlog.get_logger()


class RuleTopic(RuleSource, Protocol):
    """The topic of rules. Both methods raise KafkaException or StackError."""

    def end(self) -> int:
        """The end offset: the first one that is not written yet."""


class CachedRules:
    """The rules up to the offset that ticks name, and further where an alert needs it.

    An alert uses the channels of its rule version, in the newest revision of that version.
    """

    def __init__(self, topic: RuleTopic) -> None:
        self._topic = topic
        self._history = RuleHistory({}, {})
        self._read_until = self._required_until = 0
        # Versions missing up to `_read_until`: each is looked up once, not for every alert.
        self._missing: set[tuple[str, int]] = set()

    def require_until(self, until: int) -> None:
        """Use the rules below an offset from the next look-up on."""
        self._required_until = max(self._required_until, until)

    def __call__(self, rule_id: str, version: int) -> Collection[str]:
        """The channels of a rule version; a version missing from the topic has none.

        Raises TransactionAborted when the version is not known and the topic cannot be read now.
        """
        found = self._history.find_version(rule_id, version)
        is_new = found is None and (rule_id, version) not in self._missing
        if is_new or self._read_until < self._required_until:
            found = self._look_up(rule_id, version) or found
        return () if found is None else found.rule.channels

    def _look_up(self, rule_id: str, version: int) -> RuleVersion | None:
        try:
            # Up to the end of the topic: the evaluator may be a tick ahead.
            until = self._topic.end()
            self._history = self._topic.read(until)
        except (StackError, KafkaException) as error:
            log.warning("rules not read", reason=str(error))
            # For a known version only its newest revision is missing.
            if found := self._history.find_version(rule_id, version):
                return found
            time.sleep(_RETRY_SECONDS)
            raise TransactionAborted("rules cannot be read; nothing is sent meanwhile") from error
        # A re-created topic ends before the offset that ticks name: it is not read again for that.
        self._read_until = self._required_until = max(until, self._required_until)
        self._missing.clear()
        found = self._history.find_version(rule_id, version)
        if found is None:
            self._missing.add((rule_id, version))
            log.warning("rule not known", rule_id=rule_id, version=version)
        return found


class RegisteredStores:
    """The stores of the stores file, with a look-up for the channels of rules."""

    def __init__(
        self, entries: Mapping[str, StoreEntry], default_zone: str, rules: RuleLookup
    ) -> None:
        self._entries, self._default = entries, default_zone
        self.rule_channels = rules
        self._facts = lru_cache(100_000)(self._facts_on)

    def store(self, store_id: str) -> StoreFacts:
        """The facts of a store; a store missing from the file has the default time zone."""
        # The facts of today decide: quiet hours apply to the present, not to the past.
        return self._facts(store_id, datetime.now(UTC).date())

    def _facts_on(self, store_id: str, day: date) -> StoreFacts:
        entry = self._entries.get(store_id, StoreEntry())
        return StoreFacts(entry.clock(self._default).zone, entry.valid_on(day).groups)
