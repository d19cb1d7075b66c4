"""A watch over the ingest from outside its query.

It checks that the query runs, that it keeps up, and up to which instant it has read everything.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event

import structlog
from cassandra.cluster import Session
from confluent_kafka import KafkaException
from pyspark.sql.streaming.query import StreamingQuery

from batch_layer.master.positions import stable_ends
from batch_layer.master.progress import upsert_current_instant
from runtime.connect import CASSANDRA_ERRORS
from runtime.kafka.offsets import OffsetBarrier, TopicOffsets, flatten_offsets
from runtime.kafka.topics import PartitionId
from runtime.process.heartbeat import Heartbeat
from runtime.registry.sources import FAMILIES
from runtime.spark.causes import root_cause
from tally.config.settings import Settings
from tally.errors import CassandraWriteTimeout, TallyError

WATCH_SECONDS = 0.5
# Interval between reads of the topics' ends; the serving layer must learn how far the master is
# at least every ten seconds.
ENDS_SECONDS = 3.0

log = structlog.get_logger()


@dataclass(frozen=True)
class RunningQuery:
    """A running query: how far it has read, and Tally's refusal if that is why it failed."""

    query: StreamingQuery
    position: Callable[[], TopicOffsets]
    refusal: Callable[[], TallyError | None]


class IngestWatch:
    """Writes the heartbeat, and reports to the serving layer how current the master is."""

    def __init__(self, settings: Settings, session: Session) -> None:
        self._settings = settings
        self._session = session
        self._heartbeat = Heartbeat(settings.heartbeat_file)
        self._barrier: OffsetBarrier[datetime, PartitionId] | None = None
        self._ends_read_at = float("-inf")

    def watch_until_stopped(self, running: RunningQuery, stop: Event) -> None:
        """Watch until `stop` is set. Raises the query's refusal, or TallyError when it failed."""
        while not stop.wait(WATCH_SECONDS):
            if not running.query.isActive:
                # The refusal itself is raised and not Spark's wrapper: its class shows that no
                # restart helps.
                raise running.refusal() or TallyError(
                    f"query {running.query.name} failed:"
                    f" {root_cause(str(running.query.exception()))}"
                )
            self.check(running.position())
        running.query.stop()

    def check(self, reached: TopicOffsets) -> None:
        """Write one heartbeat, and from time to time read the ends of the topics."""
        # One sight at a time: a new one before the last is reached would move the target for ever.
        if self._barrier is None and time.monotonic() - self._ends_read_at >= ENDS_SECONDS:
            self._ends_read_at = time.monotonic()
            self._try_call(self._read_ends)
        if self._barrier is not None and self._barrier.is_passed(flatten_offsets(reached)):
            at, self._barrier = self._barrier.at, None
            self._try_call(lambda: upsert_current_instant(self._session, FAMILIES, at))
        self._heartbeat.beat(reached, self._is_behind())

    def _is_behind(self) -> bool:
        # Records wait between two triggers; that is no lag.
        patience = 2 * self._settings.ingest_trigger_seconds
        return (
            self._barrier is not None
            and (datetime.now(UTC) - self._barrier.at).total_seconds() > patience
        )

    def _read_ends(self) -> None:
        # Taken before the ends: records that arrive in between are not claimed to be read.
        at = datetime.now(UTC)
        topics = [family.topic for family in FAMILIES.values()]
        self._barrier = OffsetBarrier(at, flatten_offsets(stable_ends(self._settings, topics)))

    def _try_call(self, call: Callable[[], None]) -> None:
        # A broker or node that does not answer must not end a query that still runs: the query
        # fails by itself if it has to.
        try:
            call()
        except (KafkaException, CassandraWriteTimeout, *CASSANDRA_ERRORS) as error:
            log.warning("how current the master is remains unsaid", reason=str(error))
