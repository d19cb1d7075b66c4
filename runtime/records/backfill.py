"""Declared backfills: spans of days before a family's first arrival that were sent whole.

A person declares that a span is complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows
from tally.time.instants import assume_utc


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
    row = (family, declared.first, declared.last, declared.declared_at, source)
    write_rows(session, insert, [row])
    return declared


def read_backfills(session: Session, family: str) -> Sequence[Backfill]:
    """All declarations of the family, ordered by first day."""
    rows = session.execute(
        "SELECT first_day, last_day, source, declared_at FROM backfill WHERE family = %s", [family]
    )
    return [
        Backfill(
            family,
            row.first_day.date(),
            row.last_day.date(),
            row.source,
            assume_utc(row.declared_at),
        )
        for row in rows
    ]
