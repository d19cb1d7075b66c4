"""By which definition a partition is read, and from which window on its rows are whole.

Told to who judges by the rows of windows that no generation has yet: below that window some records
are in no row, and their absence is no silence.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from cassandra.cluster import Session
from cassandra.query import Statement

from runtime.offsets import TopicOffsets
from runtime.topics import Lane
from runtime.writes import prepared
from speed_layer.acks import Ack
from speed_layer.handover import Handover
from tally.families import Family
from tally.key_periods import MOST_DAYS

# Days of a store's clock: one more, for it may be set back over their end.
LONGEST_PERIOD_MILLIS = (MOST_DAYS + 1) * 86_400_000


class WholeSince:
    """Of each partition the first whole window, once it is known by the definition of now."""

    def __init__(self, session: Session, families: Sequence[Family], begins: Handover) -> None:
        self._families = {family.topic: family for family in families}
        self._begins = begins
        # Under one epoch a register by offset: a driver that wakes up late changes nothing.
        self._write = prepared(
            session,
            f"INSERT INTO {session.keyspace}.speed_epoch"
            " (family, partition, epoch, until, floor) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ?",
        )
        self._floors = _kept_floors(session, families)

    def begin(self, position: TopicOffsets) -> None:
        """The query goes on there; what it has not read anything of has no state, and is known."""
        # Of another partition only its state could tell, which is looked at when its next record
        # comes: the definition may be another one than that of the driver before. Until then the
        # row of that one stands, and is true, for nothing has been read since.
        for topic, starting in self._begins.starting.items():
            for number, offset in position.get(topic, {}).items():
                if topic in self._families and starting.get(number) == offset:
                    self._note(topic, number, 0)

    def note(self, acks: Iterable[Ack]) -> None:
        """What the micro-batch of the acks has found in the state of its partitions."""
        for ack in acks:
            if ack.topic in self._families and ack.floor is not None:
                self._note(ack.topic, ack.partition, ack.floor)

    def writes(self, topic: str, number: int, until: int) -> list[Statement]:
        """What tells how far a partition is read, the first offset not in its rows.

        Nothing where it is not known since when it is whole.
        """
        family, floor = self._families[topic], self._floors.get((topic, number))
        if floor is None:
            return []
        row = (family.name, number, family.epochs.highest, until, floor)
        return [self._write.bind((*row, until))]

    def _note(self, topic: str, number: int, floor: int) -> None:
        family = self._families[topic]
        begun = _millis(self._begins.floors.get(family.name))
        found, lane = whole_from(family, max(floor, begun)), (topic, number)
        self._floors[lane] = max(found, self._floors.get(lane, 0))


def whole_from(family: Family, floor: int) -> int:
    """From when on windows are whole of which records are left out below the floor.

    Both in milliseconds since 1970 (UTC); 0 for all windows.
    """
    if floor <= 0:
        return 0
    # A presence is left out by the begin of its key period, which reaches over the floor.
    return floor if family.reading is None else floor + LONGEST_PERIOD_MILLIS


def _kept_floors(session: Session, families: Sequence[Family]) -> dict[Lane, int]:
    """Floors in milliseconds since 1970 (UTC), as told before by the same definition."""
    statement = prepared(
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
    return 0 if instant is None else round(instant.timestamp() * 1000)
