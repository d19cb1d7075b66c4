"""The topic of rules: read up to an offset, and written so that of two writers one is told.

It has one partition, and Kafka keeps all of it: by compaction it would keep the last record of a
key, and the first is the one that holds (docs/adr/020-rules-are-a-chronicle.md).
"""

from collections.abc import Iterable, Sequence

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from runtime.connect import kafka_consumer, kafka_producer
from runtime.producer import AwaitedProducer
from runtime.reading import read_until
from runtime.topics import bounds_of
from tally.alerts.rule import RuleVersion
from tally.alerts.versions import RuleChains, RuleEntry, RuleRecord, StoredRule, chains_of, entry_of
from tally.errors import RuleConflict, StackError
from tally.settings import Settings

TOPIC, PARTITION = "alert-rules", 0
ANSWER_SECONDS = 30.0


class RuleReader:
    """The rules as the topic has them. What was read once is kept: a later call reads on."""

    def __init__(self, settings: Settings, topic: str = TOPIC) -> None:
        self._settings = settings
        self._topic = topic
        self._entries: list[RuleEntry] = []
        self._next = 0

    def end(self) -> int:
        """The first offset that is not written yet: up to there are the rules of now.

        Raises KafkaException.
        """
        with kafka_consumer(self._settings, "rules-end") as consumer:
            return bounds_of(consumer, (self._topic, PARTITION), ANSWER_SECONDS).end

    def read(self, until: int | None = None) -> RuleChains:
        """The versions that the records below the offset make; by default of all that are there.

        The same for everybody who reads up to the same offset. Raises KafkaException, and
        StackError when the topic does not come to the offset, or has not the brokers' time.
        """
        # One look at the end: what comes while it is read belongs to the next call.
        wanted = self.end() if until is None else until
        if wanted > self._next:
            lane = self._topic, PARTITION
            messages = read_until(self._settings, lane, wanted, self._next)
            found = [entry_of(_record(message)) for message in messages]
            # Only now: what breaks off is read again whole.
            self._entries += found
            self._next = wanted
        return chains_of(one for one in self._entries if one.offset < wanted)


def write_rules(
    settings: Settings, stored: Sequence[StoredRule], topic: str = TOPIC
) -> list[RuleVersion]:
    """The versions that the changes make, one for each, once all are acknowledged.

    Each is read back. Raises RuleConflict when one of them lost to a change that somebody else had
    made to the same rule; then all others hold. NotSent when an unknown part of them is stored.
    """
    if not stored:
        return []
    offsets: list[int] = []
    sender = AwaitedProducer(
        kafka_producer(settings), ANSWER_SECONDS, lambda message: offsets.append(_offset(message))
    )
    for one in stored:
        sender.send(topic, one.value, one.key, PARTITION)
    # Before that nobody knows an offset, and so not who was first.
    sender.settle(f"topic {topic}", "look with `tally rules diff` at what is stored")
    # As far as our own records: what comes behind them cannot have been first.
    chains = RuleReader(settings, topic).read(max(offsets) + 1)
    _refuse_lost(one for one in stored if not chains.holds(one))
    made = (chains.version(one.rule.rule_id, one.version) for one in stored)
    return [version for version in made if version is not None]


def _refuse_lost(lost: Iterable[StoredRule]) -> None:
    ids = tuple(one.rule.rule_id for one in lost)
    if ids:
        raise RuleConflict(
            f"rules: {', '.join(ids)}: somebody else has written another version meanwhile, and"
            " that one holds; look with `tally rules diff`, and apply again",
            ids,
        )


def _record(message: Message) -> RuleRecord:
    kind, arrived_ms = message.timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        # By a writer's own clock a rule could begin in the past.
        raise StackError(
            f"topic {message.topic()} has not the brokers' time in its records;"
            " `tally up kafka` sets message.timestamp.type"
        )
    key, value = _bytes(message.key()), _bytes(message.value())
    return RuleRecord(_offset(message), key, value, arrived_ms)


def _offset(message: Message) -> int:
    return message.offset() or 0


def _bytes(content: str | bytes | None) -> bytes:
    return content.encode() if isinstance(content, str) else content or b""
