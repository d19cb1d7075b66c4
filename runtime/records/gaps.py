"""What persons have declared about records, stored in Cassandra for good.

Accepted gaps are of records lost before they were read, accepted so that a job could go on.
Declared backfills are spans of days before a family's first arrival that were sent whole.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import UTC, date, datetime
from typing import Any

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows
from runtime.kafka.offsets import TopicOffsets
from schemas import loader
from tally.time.instants import assume_utc

# The fields of AcceptedGap, in their order.
_GAP = "topic, partition, from_offset, until_offset, first_arrival, last_arrival, noted_at, reason"
SELECT_GAPS = f"SELECT {_GAP} FROM gap"
_INSERT_GAP = f"INSERT INTO gap ({_GAP}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, order=True)
class AcceptedGap:
    """The lost offsets [from, until) of one partition, arrived from first to last arrival (UTC)."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    first_arrival: datetime
    last_arrival: datetime
    noted_at: datetime
    reason: str

    @property
    def is_raw(self) -> bool:
        """Whether raw records were lost: they may be of any store, whatever their partition."""
        return bool(loader.topics()[self.topic]["kind"] == "raw")

    def to_fields(self, format_instant: Callable[[datetime], str]) -> dict[str, Any]:
        """The fields that an answer or a report shows, which is all but when it was noted."""
        first, last = format_instant(self.first_arrival), format_instant(self.last_arrival)
        fields = {**asdict(self), "first_arrival": first, "last_arrival": last}
        del fields["noted_at"]
        return fields


def read_gaps(session: Session, topics: Collection[str] | None = None) -> list[AcceptedGap]:
    """The accepted gaps of these topics, of all if None, by topic, partition and offset."""
    # All gaps are read: each was accepted by hand, so there are few.
    found = sorted(map(parse_gap, session.execute(SELECT_GAPS)))
    return [gap for gap in found if topics is None or gap.topic in topics]


def parse_gap(row: Iterable[Any]) -> AcceptedGap:
    """The gap in a row of SELECT_GAPS."""
    values: Any = (assume_utc(at) if isinstance(at, datetime) else at for at in row)
    return AcceptedGap(*values)


def store_gap(session: Session, gap: AcceptedGap) -> None:
    """Store the gap; a repetition writes the same row. Raises CassandraWriteTimeout."""
    write_rows(session, _INSERT_GAP, [astuple(gap)])


def skip_gaps(
    until: TopicOffsets,
    gaps: Iterable[AcceptedGap],
) -> dict[str, dict[int, int]]:
    """First offset still wanted by topic and partition; one in a gap is moved to the gap's end.

    >>> before, after = datetime(2017, 1, 1), datetime(2017, 1, 2)
    >>> gap = AcceptedGap("sales", 0, 5, 9, before, after, after, "")
    >>> skip_gaps({"sales": {0: 5, 1: 5}}, [gap]), skip_gaps({"sales": {0: 4}}, [gap])
    ({'sales': {0: 9, 1: 5}}, {'sales': {0: 4}})
    """
    next_offsets = {topic: dict(offsets) for topic, offsets in until.items()}
    # Ascending order: the end of one gap may lie in the next.
    for gap in sorted(gaps, key=lambda gap: gap.from_offset):
        position = next_offsets.get(gap.topic, {}).get(gap.partition, 0)
        if gap.from_offset <= position < gap.until_offset:
            next_offsets.setdefault(gap.topic, {})[gap.partition] = gap.until_offset
    return next_offsets


@dataclass(frozen=True)
class Backfill:
    """UTC days first to last, both inclusive, of one family; by whom and when declared."""

    family: str
    first: date
    last: date
    source: str
    declared_at: datetime


def declare_backfill(
    session: Session, family: str, days: tuple[date, date], source: str
) -> Backfill:
    """Store the declaration and return it. Repeating it changes only its source and time.

    Raises CassandraWriteTimeout when Cassandra does not acknowledge it in time.
    """
    declared = Backfill(family, *days, source, datetime.now(UTC))
    # The statement is prepared: as text the driver writes no date before the year 1000.
    insert = (
        "INSERT INTO backfill (family, first_day, last_day, declared_at, source)"
        " VALUES (?, ?, ?, ?, ?)"
    )
    write_rows(session, insert, [(family, *days, declared.declared_at, source)])
    return declared


def read_backfills(session: Session, family: str) -> Sequence[Backfill]:
    """All declarations of the family, ordered by first day."""
    rows = session.execute(
        "SELECT first_day, last_day, source, declared_at FROM backfill WHERE family = %s", [family]
    )
    return [
        Backfill(family, first.date(), last.date(), source, assume_utc(declared_at))
        for first, last, source, declared_at in rows
    ]
