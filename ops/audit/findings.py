"""What rebuilds and operators have noted and an audit names.

That is accepted gaps, and tills whose numbers begin again.
"""

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


@dataclass(frozen=True)
class TillFinding:
    """A till whose receipt numbers seem to have begun again on a day.

    The cure is `numbering` in the stores file.
    """

    family: str
    store_id: str
    till_id: str
    day: str
    records: int
    conflicts: int


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


def read_tills(session: Session) -> Sequence[TillFinding]:
    """Every till and day with a finding that still stands."""
    rows = session.execute(
        "SELECT family, store_id, till_id, day, records, conflicts FROM till_finding"
    )
    found = [
        TillFinding(
            row.family,
            row.store_id,
            row.till_id,
            str(row.day),
            row.records,
            row.conflicts,
        )
        for row in rows
        # 0 is written by a later rebuild to which the till looked well.
        if row.conflicts
    ]
    return sorted(
        found,
        key=lambda one: (
            one.family,
            one.day,
            one.store_id,
            one.till_id,
        ),
    )
