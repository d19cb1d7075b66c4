"""Accepted gaps, as an audit names them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from cassandra.cluster import Session

from tally.instants import instant_text


@dataclass(frozen=True)
class GapFinding:
    """Records [from_offset, until_offset) that were gone before they were read.

    The arrivals are those of their neighbours.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    first_arrival: str
    last_arrival: str
    reason: str


def read_gaps(session: Session) -> Sequence[GapFinding]:
    """Every accepted gap."""
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
            instant_text(row.first_arrival.replace(tzinfo=UTC)),
            instant_text(row.last_arrival.replace(tzinfo=UTC)),
            row.reason,
        )
        for row in rows
    ]
