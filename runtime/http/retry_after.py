"""Reads the header Retry-After, for everything that calls another program over HTTP."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def parse_retry_after(text: str, now: float) -> float | None:
    """The seconds from now that a header Retry-After requests, as a number or an instant.

    None without it, and for a text that is neither.
    """
    value = text.strip()
    if value.isascii() and value.isdigit():
        # A number with more digits is no realistic delay.
        return float(value) if len(value) < 10 else None
    try:
        instant = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.fromtimestamp(now, UTC)).total_seconds())
