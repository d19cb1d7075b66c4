"""Ranges of time, half-open [start, end), and the 15-minute windows, which are aligned to UTC."""

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

# The only definition of the length; the constants in other units are derived from it.
WINDOW = timedelta(minutes=15)
WINDOW_SECONDS = WINDOW // timedelta(seconds=1)
WINDOW_MILLIS = WINDOW // timedelta(milliseconds=1)
_MINUTES = WINDOW // timedelta(minutes=1)
# The pointers of a rebuild move in one conditional write, which has an upper limit.
MAX_DAYS = 10_000


# A named tuple and no dataclass: an answer has tens of thousands, and most are only unpacked.
class TimeRange(NamedTuple):
    """A range of instants (UTC), half-open."""

    start: datetime
    end: datetime


def window_start(instant: datetime) -> datetime:
    """Start of the window that holds the instant, in UTC.

    >>> window_start(datetime(2017, 9, 19, 22, 59, 59, tzinfo=UTC)).isoformat()
    '2017-09-19T22:45:00+00:00'
    """
    instant = instant.astimezone(UTC)
    minute = instant.minute - instant.minute % _MINUTES
    return instant.replace(minute=minute, second=0, microsecond=0)


def window_starts(start: datetime, end: datetime) -> list[datetime]:
    """Every window start in [start, end), ascending, UTC; start must be on the grid."""
    first = start.astimezone(UTC)
    count = -(-(end - first) // WINDOW)
    return [first + i * WINDOW for i in range(count)]


def utc_days(start: datetime, end: datetime) -> list[date]:
    """UTC days that [start, end) touches, ascending; empty when end is not after start."""
    first = start.astimezone(UTC).date()
    last = (end.astimezone(UTC) - timedelta(microseconds=1)).date()
    count = (last - first).days + 1
    return [first + timedelta(days=i) for i in range(count)]


def parse_days(text: str) -> tuple[date, date]:
    """First and last UTC day of `A..B`, both inclusive.

    Raises ValueError, whose message says what is expected.

    >>> parse_days("2017-09-01..2017-09-30")
    (datetime.date(2017, 9, 1), datetime.date(2017, 9, 30))
    """
    try:
        first, last = (date.fromisoformat(day) for day in text.split(".."))
    except ValueError as error:
        raise ValueError(
            f"--days {text!r}: expected YYYY-MM-DD..YYYY-MM-DD, both inclusive"
        ) from error
    if last < first:
        raise ValueError(f"--days {text!r}: the first day is after the last")
    if (last - first).days >= MAX_DAYS:
        raise ValueError(f"--days {text!r}: more than {MAX_DAYS:,} days; take them in parts")
    return first, last
