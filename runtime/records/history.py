"""From when on raw receipts and past alerts are kept; noted before earlier ones are removed."""

from datetime import date, datetime

from cassandra.cluster import Session

from runtime.cassandra.writes import write_rows

# One row beside the days up to which versions of numbers are swept.
_KEY = ("history", date(1970, 1, 1))
SELECT_HISTORY_BEGIN = "SELECT until FROM swept_day WHERE family = 'history' AND day = '1970-01-01'"


def note_history_begin(session: Session, begin: datetime) -> None:
    """Note that what happened before this instant (UTC) goes."""
    text = "INSERT INTO swept_day (family, day, until) VALUES (?, ?, ?)"
    write_rows(session, text, [(*_KEY, begin)])
