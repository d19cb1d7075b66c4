"""Accepted gaps: records lost before they were read, accepted by a person so a job could go on.

They are stored in Cassandra for good.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows
from runtime.kafka.offsets import TopicOffsets

# The query reads all gaps: each was accepted by hand, so there are few.
_SELECT_GAPS = (
    "SELECT topic, partition, from_offset, until_offset, first_arrival, last_arrival,"
    " noted_at, reason FROM gap"
)
_INSERT_GAP = """
    INSERT INTO gap (topic, partition, from_offset, until_offset,
                     first_arrival, last_arrival, noted_at, reason)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


@dataclass(frozen=True)
class AcceptedGap:
    """The lost offsets [from, until) of one partition.

    The lost records had arrived between first and last arrival (UTC).
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    first_arrival: datetime
    last_arrival: datetime
    noted_at: datetime
    reason: str


def read_gaps(session: Session) -> list[AcceptedGap]:
    """All gaps ever accepted, ordered by topic, partition and offset.

    Instants have no zone and are in UTC, as the driver gives them.
    """
    found = [AcceptedGap(*row) for row in session.execute(_SELECT_GAPS)]
    return sorted(found, key=lambda gap: (gap.topic, gap.partition, gap.from_offset))


def store_gap(session: Session, gap: AcceptedGap) -> None:
    """Store the gap; storing it again writes the same row.

    Raises CassandraWriteTimeout when Cassandra does not acknowledge it in time.
    """
    row = [getattr(gap, name) for name in AcceptedGap.__dataclass_fields__]
    write_rows(session, _INSERT_GAP, [row])


def skip_gaps(
    until: TopicOffsets,
    gaps: Iterable[AcceptedGap],
) -> dict[str, dict[int, int]]:
    """First offset still wanted by topic and partition.

    An offset that lies in a gap is moved to the gap's end.

    >>> before, after = datetime(2017, 1, 1), datetime(2017, 1, 2)
    >>> gap = AcceptedGap("sales", 0, 5, 9, before, after, after, "")
    >>> skip_gaps({"sales": {0: 5, 1: 5}}, [gap]), skip_gaps({"sales": {0: 4}}, [gap])
    ({'sales': {0: 9, 1: 5}}, {'sales': {0: 4}})
    """
    wanted = {topic: dict(offsets) for topic, offsets in until.items()}
    # Ascending order: the end of one gap may lie in the next.
    for gap in sorted(gaps, key=lambda gap: gap.from_offset):
        position = wanted.get(gap.topic, {}).get(gap.partition, 0)
        if gap.from_offset <= position < gap.until_offset:
            wanted.setdefault(gap.topic, {})[gap.partition] = gap.until_offset
    return wanted
