"""Progress of the master dataset, written to Cassandra for the serving layer.

A day with records beyond a generation's pin is dirty. A watch from outside the ingest's query
checks that the query runs, that it keeps up, and up to which instant it has read everything.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import NamedTuple

import structlog
from cassandra.cluster import Session
from confluent_kafka import KafkaException
from pyspark.sql.streaming.query import StreamingQuery

from batch_layer.links.changed_days import DayUntil
from batch_layer.master.files import FilePart
from batch_layer.master.positions import stable_ends
from runtime.cassandra.writes import write_rows
from runtime.connect import CASSANDRA_ERRORS
from runtime.kafka.log_identity import RecordFingerprint
from runtime.kafka.offsets import OffsetBarrier, TopicOffsets, flatten_offsets
from runtime.kafka.topics import PartitionId
from runtime.process.heartbeat import Heartbeat
from runtime.registry.sources import FAMILIES
from runtime.spark.checkpoint import root_cause
from tally.config.settings import Settings
from tally.errors import CassandraWriteTimeout, TallyError
from tally.time.instants import from_millis

# The write timestamp is the row's own offset or instant: of two tries, or two ingesters, the one
# that got further wins, in any order of the writes.
_POSITION = (
    "INSERT INTO master_position (family, partition, until) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
# The earlier the instant, the higher the write timestamp.
_ARRIVAL = "INSERT INTO master_arrival (family, first_at) VALUES (?, ?) USING TIMESTAMP ?"
_LAST_MILLIS = 2**50
_CURRENT = "INSERT INTO master_current (family, current_at) VALUES (?, ?) USING TIMESTAMP ?"
WATCH_SECONDS = 0.5
# Interval between reads of the topics' ends; the serving layer must learn how far the master is
# at least every ten seconds.
ENDS_SECONDS = 3.0

log = structlog.get_logger()


def last_fingerprints(parts: Iterable[FilePart]) -> dict[str, dict[int, RecordFingerprint]]:
    """The fingerprint of the last record (by offset) of the files, by source and partition."""
    fingerprints: dict[str, dict[int, RecordFingerprint]] = {}
    # A partition has a part for each day with records: the one that reaches furthest overwrites
    # the others.
    for part in sorted(parts, key=lambda part: part.last_offset):
        last = RecordFingerprint(part.last_offset, part.last_micros // 1000, part.last_sha256)
        fingerprints.setdefault(part.source, {})[part.partition] = last
    return fingerprints


def days_of_parts(parts: Iterable[FilePart]) -> Iterator[DayUntil]:
    """How far each day of these files reaches."""
    for part in parts:
        yield part.source, part.event_date, part.partition, part.last_offset + 1


def upsert_arrivals(session: Session, parts: Iterable[FilePart]) -> None:
    """Upsert when the first readable record of a family in these files arrived."""
    arrivals = (
        (part.source, part.first_arrival // 1_000)
        for part in parts
        if part.first_arrival is not None
    )
    upsert_first_arrivals(session, arrivals)


def upsert_first_arrivals(session: Session, arrivals: Iterable[tuple[str, int]]) -> None:
    """Upsert the first arrival of families (a min-register by instant).

    arrivals: families, and milliseconds since 1970.
    """
    rows = ((family, from_millis(at), _LAST_MILLIS - at) for family, at in arrivals)
    write_rows(session, _ARRIVAL, rows)


def upsert_position(session: Session, end: TopicOffsets) -> None:
    """Upsert how far each partition is read, markers included (a max-register by offset)."""
    rows = ((*place, offset, offset) for place, offset in flatten_offsets(end).items())
    write_rows(session, _POSITION, rows)


def upsert_current_instant(session: Session, families: Iterable[str], at: datetime) -> None:
    """Upsert the instant up to which all commits are read (a max-register by that instant).

    Raises CassandraWriteTimeout after one try: the next instant supersedes this one.
    """
    rows = ((family, at, int(at.timestamp() * 1_000_000)) for family in families)
    write_rows(session, _CURRENT, rows, seconds=0)


@dataclass
class IngestState:
    """State of the ingest's query: how far it has read, and the refusal that ended it."""

    position: TopicOffsets
    refusal: TallyError | None = None


class RunningQuery(NamedTuple):
    """The ingest's query as Spark has it, and its state."""

    query: StreamingQuery
    state: IngestState


class IngestWatch:
    """Writes the heartbeat, and reports to the serving layer how current the master is."""

    def __init__(self, settings: Settings, session: Session) -> None:
        self._settings, self._session = settings, session
        self._heartbeat = Heartbeat(settings.heartbeat_file)
        self._barrier: OffsetBarrier[datetime, PartitionId] | None = None
        self._ends_read_at = float("-inf")

    def watch_until_stopped(self, running: RunningQuery, stop: Event) -> None:
        """Watch until `stop` is set. Raises the query's refusal, or TallyError when it failed."""
        query, state = running
        while not stop.wait(WATCH_SECONDS):
            if not query.isActive:
                # The refusal itself is raised and not Spark's wrapper: its class shows that no
                # restart helps.
                reason = root_cause(str(query.exception()))
                raise state.refusal or TallyError(f"query {query.name} failed: {reason}")
            self.check(state.position)
        query.stop()

    def check(self, reached: TopicOffsets) -> None:
        """Write one heartbeat, and from time to time read the ends of the topics."""
        # One sight at a time: a new one before the last is reached would move the target for ever.
        if self._barrier is None and time.monotonic() - self._ends_read_at >= ENDS_SECONDS:
            self._ends_read_at = time.monotonic()
            self._try_call(self._read_ends)
        if self._barrier and self._barrier.is_passed(flatten_offsets(reached)):
            at, self._barrier = self._barrier.at, None
            self._try_call(lambda: upsert_current_instant(self._session, FAMILIES, at))
        self._heartbeat.beat(reached, self._is_behind())

    def _is_behind(self) -> bool:
        # Records wait between two triggers; that is no lag.
        patience = timedelta(seconds=2 * self._settings.ingest_trigger_seconds)
        return self._barrier is not None and datetime.now(UTC) - self._barrier.at > patience

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
            log.warning("could not record how current the master is", reason=str(error))
