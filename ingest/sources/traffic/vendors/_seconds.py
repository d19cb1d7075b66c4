"""Instants of devices to the second, of which intervals have a whole number.

A device's timer is some milliseconds late: 10:00:00.013 to 10:01:00.010 is a minute.
"""

from datetime import timedelta
from typing import Any

from ingest.sources.traffic.device import instant_of
from tally.instants import instant_text

_HALF_SECOND = timedelta(milliseconds=500)


def to_second(said: Any, clock: str) -> Any:
    """The nearest whole second of an instant as a device wrote it; what is none as it came."""
    instant = instant_of(said, clock)
    if instant is None or not instant.microsecond:
        return said
    try:
        return instant_text((instant + _HALF_SECOND).replace(microsecond=0))
    except OverflowError:
        # The last half second of the calendar.
        return said
