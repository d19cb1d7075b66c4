"""The rules that alerts were judged by: their kind, and the channels that they name."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog
from confluent_kafka import KafkaException

from tally.alerts.delivery.deciding import RuleFacts
from tally.alerts.rule import RuleVersion
from tally.alerts.versions import RuleChains
from tally.errors import Aborted, StackError

# So long it waits after it could not read, before all comes again.
_AGAIN_SECONDS = 1.0
_NO_RULE = RuleFacts("", ())

log = structlog.get_logger()


class RuleTopic(Protocol):
    """Where the rules are read. Both raise KafkaException or StackError."""

    def end(self) -> int:
        """The first offset that is not written yet."""

    def read(self, until: int | None = None) -> RuleChains:
        """The versions below the offset."""


class LearnedRules:
    """The rules as far as ticks name them, and further where an alert asks for it.

    An alert has the channels of its version in the newest revision of that.
    """

    def __init__(self, topic: RuleTopic) -> None:
        self._topic = topic
        self._chains: Mapping[str, Sequence[RuleVersion]] = {}
        self._read = self._told = 0
        # Not there up to `_read`; looked for once, and not for each of its alerts.
        self._missing: set[tuple[str, int]] = set()

    def learn(self, until: int) -> None:
        """Let hold what lies below an offset, from the next look-up on."""
        self._told = max(self._told, until)

    def __call__(self, rule_id: str, version: int) -> RuleFacts:
        """Of a version; nobody is named by one that the topic does not have.

        Raises Aborted when it is not known and the brokers do not tell it now.
        """
        found = self._version(rule_id, version)
        is_new = found is None and (rule_id, version) not in self._missing
        if is_new or self._read < self._told:
            found = self._looked_up(rule_id, version) or found
        if found is None:
            return _NO_RULE
        return RuleFacts(found.rule.kind, found.rule.channels)

    def _looked_up(self, rule_id: str, version: int) -> RuleVersion | None:
        try:
            # To its end: the evaluator may be a tick ahead.
            until = self._topic.end()
            self._chains = self._topic.read(until).chains
        except (StackError, KafkaException) as error:
            log.warning("rules not read", reason=str(error))
            # Of one that is known only the newest wording is missing.
            if found := self._version(rule_id, version):
                return found
            time.sleep(_AGAIN_SECONDS)
            raise Aborted("rules cannot be read; nobody is told meanwhile") from error
        # A topic that was made anew ends before what ticks say: not to be looked for again.
        self._read = self._told = max(until, self._told)
        self._missing.clear()
        found = self._version(rule_id, version)
        if found is None:
            self._missing.add((rule_id, version))
            log.warning("rule not known", rule_id=rule_id, version=version)
        return found

    def _version(self, rule_id: str, version: int) -> RuleVersion | None:
        chain = self._chains.get(rule_id, ())
        return next((one for one in chain if one.version == version), None)
