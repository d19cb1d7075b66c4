"""Up to which tick evaluators have judged: until then the count of silent stores is unknown."""

import time
from collections.abc import Callable, Collection
from typing import Any

import structlog
from confluent_kafka import KafkaException

from runtime.connect import kafka_consumer
from runtime.kafka.log_identity import PositionMetadata
from runtime.kafka.topics import read_committed_positions
from tally.config.settings import Settings

EVALUATOR = "evaluator"
# A group of silent stores is awaited for minutes, so asking more often gains nothing.
_CACHE_SECONDS, _REQUEST_SECONDS = 5.0, 5.0

log = structlog.get_logger()


class EvaluationProgress:
    """The instants of the ticks that the evaluators' group has judged last, by its positions.

    The brokers are asked on demand; `now`: seconds of a monotonic clock.
    """

    def __init__(
        self, settings: Settings, topic: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._topic, self._now = settings, topic, now
        self._consumer: Any = None
        self._evaluated_at: dict[int, int] = {}
        self._requested_at = float("-inf")

    def __call__(self, partitions: Collection[int]) -> int:
        """The earliest of the instants of these partitions, ms since 1970 (UTC).

        0 while brokers have not answered, or where a partition was never judged.
        """
        if self._now() - self._requested_at >= _CACHE_SECONDS:
            self._requested_at = self._now()
            self._refresh(partitions)
        return min((self._evaluated_at.get(number, 0) for number in partitions), default=0)

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()

    def _refresh(self, partitions: Collection[int]) -> None:
        if self._consumer is None:
            # It reads the positions of the evaluators' group without joining it.
            self._consumer = kafka_consumer(self._settings, EVALUATOR)
        lanes = [(self._topic, number) for number in partitions]
        try:
            for position in read_committed_positions(self._consumer, lanes, _REQUEST_SECONDS):
                bookmark = PositionMetadata.read(position.metadata)
                if bookmark is not None and bookmark.last is not None:
                    self._evaluated_at[position.partition] = bookmark.last.timestamp_ms
        except KafkaException as error:
            # The last known instants stay; silences wait up to their limit.
            log.warning("how far alerts are judged is not known", reason=str(error))
