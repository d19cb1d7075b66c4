"""How far each day of the master dataset reaches, in Cassandra: the ingest notes it, rebuilds plan
by it.

A day with records beyond a generation's pin is dirty, and so is one of which a later record of
another day has changed the fates.
"""

from collections.abc import Iterable
from datetime import date

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows

# A family, a UTC day and a partition, and the first offset that does not change the day.
DayUntil = tuple[str, date, int, int]
# The write timestamp is the row's own offset: of two tries, or two ingesters, the one that got
# further wins, in any order of the writes.
_INSERT = (
    "INSERT INTO master_progress (family, day, partition, until)"
    " VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)


def upsert_days(session: Session, days: Iterable[DayUntil]) -> None:
    """Upsert how far each day reaches (a max-register by offset)."""
    write_rows(session, _INSERT, ((*day, day[-1]) for day in days))
