"""Ranges of time, half-open [start, end), and the 15-minute windows, which are aligned to UTC."""

from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
ONE_DAY = timedelta(days=1)
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


def next_window_start(instant: datetime) -> datetime:
    """Start of the first window that begins at the instant or later, in UTC."""
    start = window_start(instant)
    return start if start == instant else start + WINDOW


def window_starts(start: datetime, end: datetime) -> list[datetime]:
    """Every window start in [start, end), ascending, UTC; start must be on the grid."""
    first = start.astimezone(UTC)
    count = -(-(end - first) // WINDOW)
    return [first + i * WINDOW for i in range(count)]


def day_start(day: date) -> datetime:
    """Midnight that begins the day, UTC."""
    return datetime.combine(day, time(), UTC)


def day_end(day: date) -> datetime:
    """Midnight that ends the day, UTC."""
    # 9999-12-31 may have been rebuilt by hand, and Python has no day after it.
    return LAST_INSTANT if day == date.max else day_start(day) + ONE_DAY


def last_utc_day(end: datetime) -> date:
    """The UTC day of the last instant before `end`."""
    return (end.astimezone(UTC) - timedelta.resolution).date()


def days_until(first: date, end: date) -> list[date]:
    """The days from the first one to before the end, ascending."""
    return [first + number * ONE_DAY for number in range((end - first).days)]


def utc_days(start: datetime, end: datetime) -> list[date]:
    """UTC days that [start, end) touches, ascending; empty when end is not after start."""
    first, last = start.astimezone(UTC).date(), last_utc_day(end)
    return [first + number * ONE_DAY for number in range((last - first).days + 1)]


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
