"""One `view-updates` record for each changed (family, store, window), at least once.

It follows after its rows are acknowledged.
"""

from functools import lru_cache
from typing import Any

import msgspec
from confluent_kafka import KafkaError, Message

from runtime.connect import kafka_producer
from tally.errors import TallyError
from tally.families import Family
from tally.instants import from_millis, instant_text
from tally.partitions import partition_of
from tally.settings import Settings

TOPIC = "view-updates"
_FLUSH_SECONDS = 60.0


class UpdatesNotSent(TallyError):
    """Raised when Kafka did not take the view updates.

    The micro-batch fails and is repeated after a restart.
    """


class ViewUpdates:
    """The producer of one Python worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Only what was not sent is told: a call for each of thousands that were would cost as much
        # as sending it.
        self._producer = kafka_producer(settings, {"delivery.report.only.error": True})
        self._failed: list[KafkaError] = []

    def announce(self, family: Family, store_id: str, window_start: int, events: int) -> None:
        """One changed window, on its way.

        Its start in milliseconds since 1970, and the register that its rows were written with.
        """
        update = {
            "family": family.name,
            "store_id": store_id,
            "window_start": _text(window_start),
            "events": events,
            "epoch": family.epoch,
        }
        partition = partition_of(store_id, self._settings.partitions)
        message: dict[str, Any] = {
            "value": msgspec.json.encode(update),
            "key": store_id,
            "partition": partition,
        }
        try:
            self._producer.produce(TOPIC, **message, on_delivery=self._on_delivery)
        except BufferError:
            # The local queue is full: make room, then again.
            self._producer.flush(_FLUSH_SECONDS)
            self._producer.produce(TOPIC, **message, on_delivery=self._on_delivery)

    def flush(self) -> None:
        """Nothing, once every announced window is acknowledged by all in-sync replicas.

        Raises UpdatesNotSent.
        """
        left = self._producer.flush(_FLUSH_SECONDS)
        failed, self._failed = self._failed, []
        if left or failed:
            reason = failed[0].str() if failed else f"no answer within {_FLUSH_SECONDS:.0f} s"
            count = left + len(failed)
            raise UpdatesNotSent(
                f"topic {TOPIC}: {count} records were not sent ({reason});"
                " look into the broker's log"
            )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)


@lru_cache(maxsize=10_000)
def _text(millis: int) -> str:
    return instant_text(from_millis(millis))
