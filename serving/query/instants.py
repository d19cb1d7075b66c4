"""Instants as they are answered: in the asked zone with offset, Z for UTC.

Milliseconds are there only where there are any.
"""

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from tally.day_clock import DayClock

UTC_ZONE = ZoneInfo("UTC")
UTC_CLOCK = DayClock.of(UTC_ZONE)


def format_instant(instant: datetime, zone: tzinfo = UTC_ZONE) -> str:
    """The instant as text.

    >>> format_instant(datetime.fromisoformat("2017-09-19T22:45:00+00:00"), ZoneInfo("Europe/Rome"))
    '2017-09-20T00:45:00+02:00'
    """
    text = instant.astimezone(zone).isoformat(
        timespec="milliseconds" if instant.microsecond else "seconds"
    )
    return text[:-6] + "Z" if zone is UTC_ZONE else text
