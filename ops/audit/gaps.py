"""The accepted gaps, as an audit reports them."""

from collections.abc import Sequence
from dataclasses import dataclass

from cassandra.cluster import Session

from tally.time.instants import assume_utc, format_utc


@dataclass(frozen=True)
class GapFinding:
    """Records [from_offset, until_offset) that Kafka deleted before they were read.

    The arrival times are those of the neighbouring records.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    first_arrival: str
    last_arrival: str
    reason: str


def read_gaps(session: Session) -> Sequence[GapFinding]:
    """All accepted gaps."""
    rows = session.execute(
        "SELECT topic, partition, from_offset, until_offset, first_arrival, last_arrival, reason"
        " FROM gap"
    )
    return [
        GapFinding(
            row.topic,
            row.partition,
            row.from_offset,
            row.until_offset,
            format_utc(assume_utc(row.first_arrival)),
            format_utc(assume_utc(row.last_arrival)),
            row.reason,
        )
        for row in rows
    ]
