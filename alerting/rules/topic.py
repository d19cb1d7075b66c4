"""The topic of rules: read up to an offset, and written so that the loser of two writers fails.

It has one partition, and Kafka keeps all of it: compaction would keep the last record of a key, and
the first record is the valid one (docs/adr/020-rules-are-a-chronicle.md).
"""

from collections.abc import Sequence

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from alerting.rules.rule import RuleVersion
from alerting.rules.versions import (
    RuleEntry,
    RuleHistory,
    RuleRecord,
    StoredRule,
    build_history,
    parse_entry,
)
from runtime.connect import kafka_consumer, kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.kafka.reader import read_until
from runtime.kafka.topics import read_partition_bounds
from tally.config.settings import Settings
from tally.errors import RuleConflict, StackError

TOPIC, PARTITION = "alert-rules", 0
ANSWER_SECONDS = 30.0


class RuleReader:
    """Reads the rules from the topic. Entries read once are cached: a later call reads on."""

    def __init__(self, settings: Settings, topic: str = TOPIC) -> None:
        self._settings = settings
        self._topic = topic
        self._entries: list[RuleEntry] = []
        self._next = 0

    def end(self) -> int:
        """The first offset that is not written yet, behind all rules. Raises KafkaException."""
        with kafka_consumer(self._settings, "rules-end") as consumer:
            return read_partition_bounds(consumer, (self._topic, PARTITION), ANSWER_SECONDS).end

    def read(self, until: int | None = None) -> RuleHistory:
        """The versions that the records below the offset define; by default of all records.

        The result is the same for every reader up to the same offset. Raises KafkaException, and
        StackError when the topic does not reach the offset, or has not the brokers' time.
        """
        # The end is read once: records that arrive during the read belong to the next call.
        end = self.end() if until is None else until
        if end > self._next:
            messages = read_until(self._settings, (self._topic, PARTITION), end, self._next)
            found = [parse_entry(_record(message)) for message in messages]
            # Added only now: an interrupted read is repeated as a whole.
            self._entries += found
            self._next = end
        return build_history(entry for entry in self._entries if entry.offset < end)


# Milliseconds since 1970 (UTC) at which a record had arrived that a restore has sent again.
ARRIVED_HEADER = "first-arrived"


def write_rules(
    settings: Settings, stored: Sequence[StoredRule], topic: str = TOPIC
) -> list[RuleVersion]:
    """Write the changes; return the version of each, once all are acknowledged.

    Each is read back. Raises RuleConflict when one of them lost to another writer's change to the
    same rule; then all others are valid. Raises SendFailed when an unknown part of them is stored.
    """
    if not stored:
        return []
    offsets: list[int] = []
    sender = BlockingProducer(
        kafka_producer(settings), ANSWER_SECONDS, lambda sent: offsets.append(sent.offset() or 0)
    )
    for change in stored:
        sender.send(topic, change.value, change.key, PARTITION)
    # Offsets, and thus the order of the writers, are known only after the acknowledgement.
    sender.flush(f"topic {topic}", "look with `tally rules diff` at what is stored")
    # Read as far as the own records: a later record cannot have been first.
    chains = RuleReader(settings, topic).read(max(offsets) + 1)
    lost = tuple(change.rule.rule_id for change in stored if not chains.is_effective(change))
    if lost:
        raise RuleConflict(
            f"rules: {', '.join(lost)}: another version was written meanwhile, and"
            " that one holds; look with `tally rules diff`, and apply again",
            lost,
        )
    made = (chains.find_version(change.rule.rule_id, change.version) for change in stored)
    return [version for version in made if version is not None]


def _record(message: Message) -> RuleRecord:
    kind, arrived_ms = message.timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        # With a writer's own clock a rule could begin in the past.
        raise StackError(
            f"topic {message.topic()} has not the brokers' time in its records;"
            " `tally up kafka` sets message.timestamp.type"
        )
    # A restored record arrives once more: what counts is when its rule was first stored.
    if restored := dict(message.headers() or []).get(ARRIVED_HEADER):
        arrived_ms = int(restored)
    key, value = _bytes(message.key()), _bytes(message.value())
    return RuleRecord(message.offset() or 0, key, value, arrived_ms)


def _bytes(content: str | bytes | None) -> bytes:
    return content.encode() if isinstance(content, str) else content or b""
