"""Deletes raw messages that are read and older than their retention.

What is not read is never deleted, however old it is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any

import structlog
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from runtime.connect import kafka_admin
from tally.settings import Settings

SYSLOG_ERROR = 3
_TIMEOUT_SECONDS = 30.0
_LEAST_SECONDS, _MOST_SECONDS = 1.0, 60.0
# The last message that was read stays: by it the log is known again at the next start.
_KEPT = 1

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
        """Sweep at intervals until stopped.

        A sweep that fails is logged and made again: it never ends the process.
        """
        # By a tenth of the retention, about: so much longer a message may lie there.
        interval = max(
            _LEAST_SECONDS, min(_MOST_SECONDS, self._settings.raw_retention_seconds / 10)
        )
        while not stopped.wait(interval):
            try:
                self.sweep()
            except (KafkaException, TimeoutError) as error:
                log.warning("raw messages past their retention not deleted yet", reason=str(error))

    def sweep(self) -> None:
        """Delete what is both read and past its retention.

        Raises KafkaException or TimeoutError when the brokers do not do it.
        """
        # Anew each time: after a change of leaders an old one goes on asking with the epoch that it
        # knows, and is refused.
        admin: Any = kafka_admin(self._settings)
        read = {
            place: offset - _KEPT
            for place, offset in self._committed(admin).items()
            if offset > _KEPT
        }
        old = self._first_younger(admin, read) if read else {}
        bounds = [
            TopicPartition(*place, min(offset, old[place]))
            for place, offset in read.items()
            if min(offset, old[place]) > 0
        ]
        deleted = admin.delete_records(bounds, request_timeout=_TIMEOUT_SECONDS) if bounds else {}
        for outcome in deleted.values():
            outcome.result(_TIMEOUT_SECONDS)

    def _committed(self, admin: Any) -> dict[tuple[str, int], int]:
        asked = [ConsumerGroupTopicPartitions(self._group)]
        answers = admin.list_consumer_group_offsets(
            asked, require_stable=True, request_timeout=_TIMEOUT_SECONDS
        )
        kept = answers[self._group].result(_TIMEOUT_SECONDS).topic_partitions
        ours = [at for at in kept if at.topic in self._topics]
        return {(at.topic, at.partition): at.offset for at in ours}

    def _first_younger(
        self, admin: Any, read: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        """By partition the first offset that arrived within the retention.

        Where nothing has, the whole of what is read is old.
        """
        oldest_ms = int((self._now() - self._settings.raw_retention_seconds) * 1000)
        asked = {TopicPartition(*place): OffsetSpec.for_timestamp(oldest_ms) for place in read}
        answers = {
            at: found.result(_TIMEOUT_SECONDS) for at, found in admin.list_offsets(asked).items()
        }
        return {
            (at.topic, at.partition): found.offset
            if found.offset >= 0
            else read[at.topic, at.partition]
            for at, found in answers.items()
        }
