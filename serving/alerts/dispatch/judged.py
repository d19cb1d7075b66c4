"""Up to which tick evaluators have judged: before, nobody knows how many stores are silent."""

import time
from collections.abc import Callable, Collection
from typing import Any

import structlog
from confluent_kafka import KafkaException

from runtime.bookmarks import Bookmark
from runtime.connect import kafka_consumer
from runtime.topics import committed_positions
from tally.settings import Settings

EVALUATOR = "evaluator"
# A crowd waits for minutes: it need not be asked for more often.
_KNOWN_SECONDS, _ASK_SECONDS = 5.0, 5.0

log = structlog.get_logger()


class JudgedTicks:
    """The instants of the ticks that the evaluators' group has judged last, by its positions.

    Brokers are asked when somebody wants to know; `now`: seconds on a clock of its own.
    """

    def __init__(
        self, settings: Settings, topic: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._topic, self._now = settings, topic, now
        self._consumer: Any = None
        self._known: dict[int, int] = {}
        self._asked_at = float("-inf")

    def __call__(self, partitions: Collection[int]) -> int:
        """The earliest of the instants of these partitions, ms since 1970 (UTC).

        0 while brokers have not answered, or where a partition was never judged.
        """
        if self._now() - self._asked_at >= _KNOWN_SECONDS:
            self._asked_at = self._now()
            self._ask(partitions)
        return min((self._known.get(number, 0) for number in partitions), default=0)

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()

    def _ask(self, partitions: Collection[int]) -> None:
        if self._consumer is None:
            # Of the evaluators' group, and no member of it.
            self._consumer = kafka_consumer(self._settings, EVALUATOR)
        lanes = [(self._topic, number) for number in partitions]
        try:
            for at in committed_positions(self._consumer, lanes, _ASK_SECONDS):
                bookmark = Bookmark.read(at.metadata)
                if bookmark is not None and bookmark.last is not None:
                    self._known[at.partition] = bookmark.last.timestamp_ms
        except KafkaException as error:
            # What was known stays; silences wait for as long as they may.
            log.warning("how far alerts are judged is not known", reason=str(error))
