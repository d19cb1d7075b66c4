"""Conflicts by day and till: receipts with a number that was used before; and their acceptance."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from operator import attrgetter

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows

_ALL = (
    "SELECT family, day, store_id, till_id, records, conflicts, accepted, reason FROM till_finding"
)
_ACCEPT = (
    "INSERT INTO till_finding (family, day, store_id, till_id, accepted, accepted_at, reason)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True)
class TillConflicts:
    """How many of a till's records of a UTC day (ISO 8601) are conflicts, and how many accepted."""

    family: str
    day: str
    store_id: str
    till_id: str
    records: int
    conflicts: int
    accepted: int
    reason: str

    @property
    def is_open(self) -> bool:
        """Whether unaccepted conflicts keep the day from being final."""
        return self.conflicts > self.accepted


def till_conflicts(session: Session) -> list[TillConflicts]:
    """All conflicts that the newest rebuilds found, by day, store and till."""
    found = [
        TillConflicts(*(family, str(day), *till, accepted or 0, reason or ""))
        for family, day, *till, accepted, reason in session.execute(_ALL)
    ]
    # A later rebuild that finds no conflicts any more writes 0.
    ours = (till for till in found if till.conflicts)
    return sorted(ours, key=attrgetter("day", "store_id", "till_id", "family"))


def accept(
    session: Session, found: Collection[TillConflicts], reason: str, now: datetime
) -> Sequence[TillConflicts]:
    """Accept the current number of conflicts; conflicts of a later rebuild stay open.

    In:  now: aware, stored with the acceptance.
    Out: the same conflicts, accepted.
    """
    rows = []
    for till in found:
        key = till.family, date.fromisoformat(till.day), till.store_id, till.till_id
        rows.append((*key, till.conflicts, now.astimezone(UTC), reason))
    write_rows(session, _ACCEPT, rows)
    return [replace(till, accepted=till.conflicts, reason=reason) for till in found]
