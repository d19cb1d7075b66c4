"""Instants as text: RFC 3339 with offset on the wire, UTC with milliseconds and Z inside Tally, and
in answers the asked zone with its offset, Z for UTC."""

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from tally.errors import BadInstant
from tally.time.day_clock import DayClock

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?\Z", re.ASCII
)

# No sender writes a longer one, and a thousand texts of a megabyte would take long to read.
MAX_CHARACTERS = 1024
DAY_MILLIS = 86_400_000


def parse_instant(text: str, field: str) -> datetime:
    """The instant in UTC, cut to milliseconds; `field` names it in messages. Raises BadInstant."""
    match = _RFC3339.match(text) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise BadInstant(
            "not_rfc3339", f"{field}: {text[:40]!r} is not RFC 3339, e.g. 2017-09-19T22:48:03+00:00"
        )
    if match[2] is None:
        raise BadInstant("without_zone", f"{field}: {text[:40]!r} has no offset; add Z or +hh:mm")
    try:
        instant = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInstant("not_rfc3339", f"{field}: {text!r}: {error}") from error
    # Kafka and Cassandra keep milliseconds: read back it is the same instant.
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def format_utc(instant: datetime) -> str:
    """UTC with milliseconds and Z.

    >>> format_utc(datetime(2017, 9, 19, 22, 48, 3, tzinfo=UTC))
    '2017-09-19T22:48:03.000Z'
    >>> format_utc(datetime(1, 1, 1, tzinfo=UTC))
    '0001-01-01T00:00:00.000Z'
    """
    # isoformat, not strftime: that writes the year 1 without its zeros on some systems.
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def instants_at_local_time(shown: datetime, zone: ZoneInfo) -> list[datetime]:
    """The instants (UTC), ascending, at which clocks of the zone show this time, without an offset.

    There is none in an hour that is left out in spring, and two in the hour twice shown in autumn.

    >>> rome = ZoneInfo("Europe/Rome")
    >>> [str(instant) for instant in instants_at_local_time(datetime(2026, 10, 25, 2), rome)]
    ['2026-10-25 00:00:00+00:00', '2026-10-25 01:00:00+00:00']
    """
    try:
        readings = [shown.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
        both = sorted({reading.astimezone(UTC) for reading in readings})
        # For a time that is left out, clocks show another time at these instants.
        clocks = [instant.astimezone(zone).replace(tzinfo=None) for instant in both]
        return [instant for instant, clock in zip(both, clocks, strict=True) if clock == shown]
    except OverflowError:
        return []


def from_millis(millis: int) -> datetime:
    """The instant of a Kafka timestamp (milliseconds since 1970, UTC)."""
    return datetime.fromtimestamp(millis / 1000, UTC).replace(microsecond=millis % 1000 * 1000)


def assume_utc(instant: datetime) -> datetime:
    """The instant with UTC as its zone: Cassandra's driver returns UTC without a zone."""
    return instant.replace(tzinfo=UTC)


def to_millis(instant: datetime) -> int:
    """The instant in milliseconds since 1970 (UTC)."""
    return round(instant.timestamp() * 1000)


UTC_ZONE = ZoneInfo("UTC")
UTC_CLOCK = DayClock.from_zone(UTC_ZONE)


def format_instant(instant: datetime, zone: tzinfo = UTC_ZONE) -> str:
    """The instant as text in the zone; milliseconds are shown only where they are not 0.

    >>> format_instant(datetime.fromisoformat("2017-09-19T22:45:00+00:00"), ZoneInfo("Europe/Rome"))
    '2017-09-20T00:45:00+02:00'
    """
    timespec = "milliseconds" if instant.microsecond else "seconds"
    text = instant.astimezone(zone).isoformat(timespec=timespec)
    return text[:-6] + "Z" if zone is UTC_ZONE else text
