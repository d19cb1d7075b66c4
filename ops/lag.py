"""How far each part of the pipeline is behind, in records and in seconds.

The values come from the brokers and the views.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from cassandra.cluster import Session

from runtime.connect import NORMALISER_GROUP, UNCOMMITTED, kafka_consumer
from runtime.kafka.offsets import find_unread, flatten_offsets
from runtime.kafka.reader import first_records
from runtime.kafka.topics import PartitionId, read_ends, read_group_positions
from runtime.registry.sources import FAMILIES
from schemas.loader import topics
from tally.config.settings import Settings

_TIMEOUT_SECONDS = 15.0

# The next offset to read, or to write, by (topic, partition).
OffsetsByPartition = Mapping[PartitionId, int]


@dataclass(frozen=True)
class Lag:
    """Unread offsets: of the normaliser in raw topics, of speed and master in canonical ones."""

    raw_end: int
    normaliser: int
    speed: int
    master: int

    @property
    def total(self) -> int:
        """The sum of all lags: 0 when everything that was sent has reached both layers."""
        return self.normaliser + self.speed + self.master


@dataclass(frozen=True)
class WaitingSeconds:
    """Seconds since the arrival of the oldest record that each reader has not read.

    0 when the reader has read everything.
    """

    normaliser: float
    speed: float
    master: float


@dataclass(frozen=True)
class _ReaderPositions:
    """The end offsets of the topics, and the position of each reader."""

    raw_ends: OffsetsByPartition
    ends: OffsetsByPartition
    normaliser: OffsetsByPartition
    speed: OffsetsByPartition
    master: OffsetsByPartition


def read_lag(settings: Settings, session: Session) -> Lag:
    """The current lag of each reader, in records."""
    positions = _read_positions(settings, session)
    return Lag(
        raw_end=sum(positions.raw_ends.values()),
        normaliser=_records(positions.normaliser, positions.raw_ends),
        speed=_records(positions.speed, positions.ends),
        master=_records(positions.master, positions.ends),
    )


def read_waiting(settings: Settings, session: Session) -> WaitingSeconds:
    """How long the oldest unread record of each reader has waited, in seconds.

    Raises StackError when the brokers do not answer.
    """
    positions = _read_positions(settings, session)
    return WaitingSeconds(
        normaliser=_seconds(settings, positions.normaliser, positions.raw_ends),
        speed=_seconds(settings, positions.speed, positions.ends),
        master=_seconds(settings, positions.master, positions.ends),
    )


def _read_positions(settings: Settings, session: Session) -> _ReaderPositions:
    raw = [entry["raw"] for name, entry in topics().items() if name in FAMILIES]
    # Read in the order in which records travel: the records that the normaliser has passed are then
    # within the ends of the canonical topics, which are read after its position.
    with (
        kafka_consumer(settings, NORMALISER_GROUP) as normaliser,
        kafka_consumer(settings, NORMALISER_GROUP, UNCOMMITTED) as any_record,
    ):
        raw_ends = flatten_offsets(read_ends(any_record, raw, _TIMEOUT_SECONDS))
        normalised = read_group_positions(normaliser, raw_ends, _TIMEOUT_SECONDS)
        canonical_ends = flatten_offsets(read_ends(any_record, FAMILIES, _TIMEOUT_SECONDS))
    return _ReaderPositions(
        raw_ends,
        canonical_ends,
        normalised,
        _positions(session, "speed_progress"),
        _positions(session, "master_position"),
    )


def _positions(session: Session, table: str) -> OffsetsByPartition:
    rows = session.execute(f"SELECT family, partition, until FROM {table}")
    return {(row.family, row.partition): row.until for row in rows}


def _records(reached: OffsetsByPartition, ends: OffsetsByPartition) -> int:
    # Counted in offsets, not records: transaction markers are among them.
    return sum(ends[partition_id] - at for partition_id, at in find_unread(ends, reached).items())


def _seconds(settings: Settings, reached: OffsetsByPartition, ends: OffsetsByPartition) -> float:
    places = [(*partition_id, at) for partition_id, at in find_unread(ends, reached).items()]
    found = first_records(settings, places, _TIMEOUT_SECONDS).values()
    # A partition where only transaction markers follow has no first record.
    arrivals = [first.timestamp()[1] / 1000 for first in found if first is not None]
    return max(0.0, time.time() - min(arrivals)) if arrivals else 0.0
