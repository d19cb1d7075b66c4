"""One `view-updates` record for each changed (family, store, window), at least once.

It is sent after the rows are acknowledged.
"""

from functools import lru_cache

import msgspec

from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from tally.config.settings import Settings
from tally.events.partitions import partition_number
from tally.time.instants import format_utc, from_millis

TOPIC = "view-updates"
_FLUSH_SECONDS = 60.0


class ViewUpdates:
    """The producer of one Python worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Only failures are reported: a callback for each of thousands of sent records would cost as
        # much as sending them.
        producer = kafka_producer(settings, {"delivery.report.only.error": True})
        self._sender = BlockingProducer(producer, _FLUSH_SECONDS, reports_failures_only=True)

    def announce(
        self, family: str, store_id: str, window_start: int, events: int, epoch: int
    ) -> None:
        """Begin to send one changed window.

        `window_start` is in milliseconds since 1970; `events` and `epoch` are the register with
        which its rows were written.
        """
        update = {
            "family": family,
            "store_id": store_id,
            "window_start": _window_text(window_start),
            "events": events,
            "epoch": epoch,
        }
        # The partition is explicit: client libraries choose different partitions for the same key.
        partition = partition_number(store_id, self._settings.partitions)
        self._sender.send(TOPIC, msgspec.json.encode(update), store_id, partition)

    def flush(self) -> None:
        """Block until every announced window is acknowledged by all in-sync replicas.

        Raises SendFailed when one is not, or there is no answer in time: the micro-batch fails, and
        is repeated after a restart.
        """
        self._sender.flush(f"topic {TOPIC}", "look into the broker's log")


# The windows of a micro-batch begin at few instants, whatever the number of stores.
@lru_cache(maxsize=10_000)
def _window_text(millis: int) -> str:
    return format_utc(from_millis(millis))
