"""Receipts that bear a number used before, by day and till, and their acceptance."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from operator import attrgetter

from cassandra.cluster import Session

from runtime.writes import write_rows

_ALL = (
    "SELECT family, day, store_id, till_id, records, conflicts, accepted, reason FROM till_finding"
)
_ACCEPT = (
    "INSERT INTO till_finding (family, day, store_id, till_id, accepted, accepted_at, reason)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True)
class TillConflicts:
    """How many of a till's records of a day are conflicts, and how many of those were accepted.

    day: UTC, ISO 8601.
    """

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
        """Whether the day is not final because of them."""
        return self.conflicts > self.accepted


def till_conflicts(session: Session) -> list[TillConflicts]:
    """All that the newest rebuilds have found, by day, store and till."""
    return sorted(_found(session), key=attrgetter("day", "store_id", "till_id", "family"))


def _found(session: Session) -> Iterator[TillConflicts]:
    for family, day, store_id, till_id, records, conflicts, accepted, reason in session.execute(
        _ALL
    ):
        # 0 is written by a later rebuild that found none any more.
        if conflicts:
            yield TillConflicts(
                *(family, str(day), store_id, till_id, records, conflicts),
                accepted or 0,
                reason or "",
            )


def accept(
    session: Session, found: Collection[TillConflicts], reason: str, now: datetime
) -> Sequence[TillConflicts]:
    """Let the conflicts stand: as many as there are by now, not those that a rebuild will find.

    In:  now: aware, kept with them.
    Out: the same, accepted.
    """
    rows = [
        (
            *(one.family, date.fromisoformat(one.day), one.store_id, one.till_id),
            *(one.conflicts, now.astimezone(UTC), reason),
        )
        for one in found
    ]
    write_rows(session, _ACCEPT, rows)
    return [replace(one, accepted=one.conflicts, reason=reason) for one in found]
