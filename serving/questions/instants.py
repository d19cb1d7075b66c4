"""The text form of instants in answers: in the asked zone with its offset, Z for UTC.

Milliseconds are shown only where they are not 0.
"""

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from tally.time.day_clock import DayClock

UTC_ZONE = ZoneInfo("UTC")
UTC_CLOCK = DayClock.from_zone(UTC_ZONE)


def format_instant(instant: datetime, zone: tzinfo = UTC_ZONE) -> str:
    """The instant as text in the zone.

    >>> format_instant(datetime.fromisoformat("2017-09-19T22:45:00+00:00"), ZoneInfo("Europe/Rome"))
    '2017-09-20T00:45:00+02:00'
    """
    text = instant.astimezone(zone).isoformat(
        timespec="milliseconds" if instant.microsecond else "seconds"
    )
    return text[:-6] + "Z" if zone is UTC_ZONE else text
