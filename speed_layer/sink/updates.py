"""One `view-updates` record for each changed (family, store, window), at least once.

It follows after its rows are acknowledged.
"""

from functools import lru_cache

import msgspec

from runtime.connect import kafka_producer
from runtime.producer import AwaitedProducer
from tally.instants import from_millis, instant_text
from tally.partitions import partition_of
from tally.settings import Settings

TOPIC = "view-updates"
_FLUSH_SECONDS = 60.0


class ViewUpdates:
    """The producer of one Python worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Only what was not sent is told: a call for each of thousands that were would cost as much
        # as sending it.
        producer = kafka_producer(settings, {"delivery.report.only.error": True})
        self._sender = AwaitedProducer(producer, _FLUSH_SECONDS, reports_failures_only=True)

    def announce(
        self, family: str, store_id: str, window_start: int, events: int, epoch: int
    ) -> None:
        """One changed window, on its way.

        Its start in milliseconds since 1970, and the register that its rows were written with.
        """
        update = {
            "family": family,
            "store_id": store_id,
            "window_start": _text(window_start),
            "events": events,
            "epoch": epoch,
        }
        # Named here: of the same key one client library makes another partition than the next one.
        partition = partition_of(store_id, self._settings.partitions)
        self._sender.send(TOPIC, msgspec.json.encode(update), store_id, partition)

    def flush(self) -> None:
        """Block until every announced window is acknowledged by all in-sync replicas.

        Raises NotSent when one is not, or there is no answer in time: the micro-batch fails, and is
        repeated after a restart.
        """
        self._sender.settle(f"topic {TOPIC}", "look into the broker's log")


# The windows of a micro-batch begin at few instants, whatever the number of stores.
@lru_cache(maxsize=10_000)
def _text(millis: int) -> str:
    return instant_text(from_millis(millis))
