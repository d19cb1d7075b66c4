"""The ingest watched from outside of its query.

Whether it runs, whether it keeps up, and up to when it has read everything.
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
from batch_layer.master.progress import note_current
from runtime.causes import root_cause
from runtime.connect import CASSANDRA_AWAY
from runtime.heartbeat import Heartbeat
from runtime.offsets import TopicOffsets
from runtime.sources import FAMILIES
from tally.errors import TallyError, Unacknowledged
from tally.settings import Settings

WATCH_SECONDS = 0.5
# How often the ends of the topics are asked for; the serving layer has to know how far the master
# is at least every ten seconds.
ENDS_SECONDS = 3.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Running:
    """A query under way: how far it has read, and why it failed if that was Tally's refusal."""

    query: StreamingQuery
    reached: Callable[[], TopicOffsets]
    refusal: Callable[[], TallyError | None]


@dataclass(frozen=True)
class Sight:
    """The ends of the topics, and an instant before they were looked at.

    Whoever has read up to them is current at that instant.
    """

    at: datetime
    ends: TopicOffsets

    def is_reached(self, until: TopicOffsets) -> bool:
        """Whether everything that was committed then is read."""
        return all(
            until.get(topic, {}).get(number, 0) >= end
            for topic, ends in self.ends.items()
            for number, end in ends.items()
        )


class IngestWatch:
    """Beats, and tells the serving layer how current the master is."""

    def __init__(self, settings: Settings, session: Session) -> None:
        self._settings = settings
        self._session = session
        self._heartbeat = Heartbeat(settings.heartbeat_file)
        self._sight: Sight | None = None
        self._looked = float("-inf")

    def until_stopped(self, running: Running, stop: Event) -> None:
        """Watch until told to stop. Raises the query's refusal, or TallyError when it failed."""
        while not stop.wait(WATCH_SECONDS):
            if not running.query.isActive:
                # The refusal itself and not Spark's wrapping of it: its class says that no new
                # start helps.
                raise running.refusal() or TallyError(
                    f"query {running.query.name} failed:"
                    f" {root_cause(str(running.query.exception()))}"
                )
            self.look(running.reached())
        running.query.stop()

    def look(self, reached: TopicOffsets) -> None:
        """One look: a sign of life, and now and then the ends of the topics."""
        # One at a time: a new one before the last is reached would move the aim ahead for ever.
        if self._sight is None and time.monotonic() - self._looked >= ENDS_SECONDS:
            self._looked = time.monotonic()
            self._ask(self._see)
        if self._sight is not None and self._sight.is_reached(reached):
            at, self._sight = self._sight.at, None
            self._ask(lambda: note_current(self._session, FAMILIES, at))
        self._heartbeat.beat(reached, self._is_behind())

    def _is_behind(self) -> bool:
        # Between two triggers records wait, and nothing is wrong.
        patience = 2 * self._settings.ingest_trigger_seconds
        return (
            self._sight is not None
            and (datetime.now(UTC) - self._sight.at).total_seconds() > patience
        )

    def _see(self) -> None:
        # Before the ends: what arrives between the two looks is not claimed to be read.
        at = datetime.now(UTC)
        topics = [family.topic for family in FAMILIES.values()]
        self._sight = Sight(at, stable_ends(self._settings, topics))

    def _ask(self, call: Callable[[], None]) -> None:
        # Neither a broker nor a node that does not answer ends a query that still runs: it says so
        # itself if it must.
        try:
            call()
        except (KafkaException, Unacknowledged, *CASSANDRA_AWAY) as error:
            log.warning("how current the master is remains unsaid", reason=str(error))
