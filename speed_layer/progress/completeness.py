"""The definition by which a partition is read, and the window from which on its rows are whole.

Judging uses both for windows that are in no generation yet: before that window some records are in
no row, and their absence is no silence.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from cassandra.cluster import Session
from cassandra.query import Statement

from runtime.cassandra.writes import prepare_idempotent
from runtime.kafka.offsets import TopicOffsets
from runtime.kafka.topics import PartitionId
from speed_layer.progress.start_position import StartPosition
from speed_layer.state.partition_reports import PartitionReport
from tally.families.family import Family
from tally.time.instants import DAY_MILLIS, to_millis
from tally.time.key_periods import MAX_DAYS

# Days by a store's clock; one is added, since the clock may be set back across their end.
LONGEST_PERIOD_MILLIS = (MAX_DAYS + 1) * DAY_MILLIS


class CompleteFrom:
    """The first whole window of each partition, once it is known by the current definition."""

    def __init__(self, session: Session, families: Sequence[Family], begins: StartPosition) -> None:
        self._families = {family.topic: family for family in families}
        self._start_position = begins
        # Within one epoch the row is a register by offset: a driver that wakes up late changes
        # nothing.
        self._write = prepare_idempotent(
            session,
            f"INSERT INTO {session.keyspace}.speed_epoch"
            " (family, partition, epoch, until, floor) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?",
        )
        self._floors = _read_floors(session, families)

    def begin(self, position: TopicOffsets) -> None:
        """Note where the query resumes; the floor of a partition without state is known."""
        # For other partitions only the state has the answer, which is loaded with the next record:
        # the definition may differ from that of the previous driver. Until then the previous
        # driver's row is valid, since nothing has been read after it.
        for topic, starting in self._start_position.offsets.items():
            for number, offset in position.get(topic, {}).items():
                if topic in self._families and starting.get(number) == offset:
                    self._raise_floor(topic, number, 0)

    def note(self, acks: Iterable[PartitionReport]) -> None:
        """Note the floors that the micro-batch of the acks has found in the state."""
        for ack in acks:
            if ack.topic in self._families and ack.floor is not None:
                self._raise_floor(ack.topic, ack.partition, ack.floor)

    def build_writes(self, topic: str, number: int, until: int) -> list[Statement]:
        """Statements that store how far a partition is read, the first offset not in its rows.

        Empty where the first whole window is not known.
        """
        family, floor = self._families[topic], self._floors.get((topic, number))
        if floor is None:
            return []
        row = (family.name, number, family.epochs.highest, until, floor)
        return [self._write.bind((*row, until))]

    def _raise_floor(self, topic: str, number: int, floor: int) -> None:
        family = self._families[topic]
        begun = _millis(self._start_position.floors.get(family.name))
        found, lane = complete_from(family, max(floor, begun)), (topic, number)
        self._floors[lane] = max(found, self._floors.get(lane, 0))


def complete_from(family: Family, floor: int) -> int:
    """The instant from which on windows are whole, if records below the floor are left out.

    Both are in milliseconds since 1970 (UTC); 0 means all windows.
    """
    if floor <= 0:
        return 0
    # Presences are left out by the begin of their key period, which may reach across the floor.
    return floor if family.reading is None else floor + LONGEST_PERIOD_MILLIS


def _read_floors(session: Session, families: Sequence[Family]) -> dict[PartitionId, int]:
    """Floors in milliseconds since 1970 (UTC), as stored earlier by the same definition."""
    statement = prepare_idempotent(
        session,
        f"SELECT partition, epoch, floor FROM {session.keyspace}.speed_epoch WHERE family = ?",
    )
    return {
        (family.topic, row.partition): row.floor
        for family in families
        for row in session.execute(statement, [family.name])
        if row.epoch == family.epochs.highest
    }


def _millis(instant: datetime | None) -> int:
    return 0 if instant is None else to_millis(instant)
