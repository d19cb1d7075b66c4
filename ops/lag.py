"""How far each reader is behind, in records and in seconds, by the brokers and the views."""

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
    """Seconds since the arrival of the oldest record that each reader has not read; 0 for none."""

    normaliser: float
    speed: float
    master: float


# The end offsets of what a reader reads, and its position.
ReaderPosition = tuple[OffsetsByPartition, OffsetsByPartition]


def read_lag(settings: Settings, session: Session) -> Lag:
    """The current lag of each reader, in records."""
    positions = _read_positions(settings, session)
    raw_ends, _ = positions["normaliser"]
    # Counted in offsets, not records: transaction markers are among them.
    unread: dict[str, int] = {}
    for reader, (ends, reached) in positions.items():
        found = find_unread(ends, reached)
        unread[reader] = sum(ends[partition_id] - at for partition_id, at in found.items())
    return Lag(raw_end=sum(raw_ends.values()), **unread)


def read_waiting(settings: Settings, session: Session) -> WaitingSeconds:
    """Seconds that each reader's oldest unread record has waited. Raises StackError."""
    positions = _read_positions(settings, session)
    return WaitingSeconds(
        **{reader: _seconds(settings, *position) for reader, position in positions.items()}
    )


def _read_positions(settings: Settings, session: Session) -> dict[str, ReaderPosition]:
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
    return {
        "normaliser": (raw_ends, normalised),
        "speed": (canonical_ends, _positions(session, "speed_progress")),
        "master": (canonical_ends, _positions(session, "master_position")),
    }


def _positions(session: Session, table: str) -> OffsetsByPartition:
    rows = session.execute(f"SELECT family, partition, until FROM {table}")
    return {(row.family, row.partition): row.until for row in rows}


def _seconds(settings: Settings, ends: OffsetsByPartition, reached: OffsetsByPartition) -> float:
    places = [(*partition_id, at) for partition_id, at in find_unread(ends, reached).items()]
    found = first_records(settings, places, _TIMEOUT_SECONDS).values()
    # A partition where only transaction markers follow has no first record.
    arrivals = [first.timestamp()[1] / 1000 for first in found if first is not None]
    return max(0.0, time.time() - min(arrivals)) if arrivals else 0.0
