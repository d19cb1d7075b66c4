"""Deletes raw messages past their retention, but none that the normaliser has not read."""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

import structlog
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from runtime.connect import kafka_admin
from tally.config.settings import Settings

SYSLOG_ERROR = 3
_TIMEOUT_SECONDS = 30.0
_MIN_SECONDS, _MAX_SECONDS = 1.0, 60.0
# The last message that was read stays: the next start recognises the log by it.
_RETAINED = 1

log = structlog.get_logger()


class Janitor:
    """Sweeps the topics of one group, behind its committed positions."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        topics: Sequence[str],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._group = group
        self._topics = frozenset(topics)
        self._now = now

    def run(self, stopped: Event) -> None:
        """Sweep at intervals until stopped; a sweep that fails is logged and repeated."""
        # About a tenth of the retention: a message may stay so much longer than its retention.
        interval = max(_MIN_SECONDS, min(_MAX_SECONDS, self._settings.raw_retention_seconds / 10))
        while not stopped.wait(interval):
            try:
                self.sweep()
            except (KafkaException, TimeoutError) as error:
                log.warning("raw messages past their retention not deleted yet", reason=str(error))

    def sweep(self) -> None:
        """Delete what is read and past its retention. Raises KafkaException or TimeoutError."""
        # A new client each time: after a change of leaders an old client goes on with the epoch
        # that it knows, and is refused.
        admin: Any = kafka_admin(self._settings)
        committed = self._read_committed_offsets(admin).items()
        read = {place: offset - _RETAINED for place, offset in committed if offset > _RETAINED}
        old = self._first_retained_offsets(admin, read) if read else {}
        ends = {place: min(offset, old[place]) for place, offset in read.items()}
        bounds = [TopicPartition(*place, end) for place, end in ends.items() if end > 0]
        deleted = admin.delete_records(bounds, request_timeout=_TIMEOUT_SECONDS) if bounds else {}
        for outcome in deleted.values():
            outcome.result(_TIMEOUT_SECONDS)

    def _read_committed_offsets(self, admin: Any) -> dict[tuple[str, int], int]:
        groups = [ConsumerGroupTopicPartitions(self._group)]
        answers = admin.list_consumer_group_offsets(
            groups, require_stable=True, request_timeout=_TIMEOUT_SECONDS
        )
        committed = answers[self._group].result(_TIMEOUT_SECONDS).topic_partitions
        ours = [position for position in committed if position.topic in self._topics]
        return {(position.topic, position.partition): position.offset for position in ours}

    def _first_retained_offsets(
        self, admin: Any, read: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        """The first offset within the retention, or else the end of what is read, by partition."""
        oldest_ms = int((self._now() - self._settings.raw_retention_seconds) * 1000)
        specs = {TopicPartition(*place): OffsetSpec.for_timestamp(oldest_ms) for place in read}
        found: dict[tuple[str, int], int] = {}
        for at, answer in admin.list_offsets(specs).items():
            place, offset = (at.topic, at.partition), answer.result(_TIMEOUT_SECONDS).offset
            found[place] = offset if offset >= 0 else read[place]
        return found
