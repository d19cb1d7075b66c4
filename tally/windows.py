"""15-minute windows, aligned to UTC, half-open [start, end)."""

from datetime import UTC, date, datetime, timedelta

WINDOW = timedelta(minutes=15)


def window_start(instant: datetime) -> datetime:
    """Start of the window that holds the instant, in UTC.

    >>> window_start(datetime(2017, 9, 19, 22, 59, 59, tzinfo=UTC)).isoformat()
    '2017-09-19T22:45:00+00:00'
    """
    instant = instant.astimezone(UTC)
    return instant.replace(minute=instant.minute - instant.minute % 15, second=0, microsecond=0)


def window_starts(start: datetime, end: datetime) -> list[datetime]:
    """Every window start in [start, end), ascending, UTC; start must be on the grid."""
    first = start.astimezone(UTC)
    count = -(-(end - first) // WINDOW)
    return [first + i * WINDOW for i in range(count)]


def utc_days(start: datetime, end: datetime) -> list[date]:
    """UTC days that [start, end) touches, ascending; empty when end is not after start."""
    first = start.astimezone(UTC).date()
    last = (end.astimezone(UTC) - timedelta(microseconds=1)).date()
    return [first + timedelta(days=i) for i in range((last - first).days + 1)]
