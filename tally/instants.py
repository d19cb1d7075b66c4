"""Instants as text: RFC 3339 with offset on the wire, UTC with milliseconds and Z inside Tally."""

import re
from datetime import UTC, datetime

from tally.errors import BadInstant

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?\Z", re.ASCII
)


def parse_instant(text: str, field: str) -> datetime:
    """The instant in UTC, cut to milliseconds; `field` names it in messages. Raises BadInstant."""
    match = _RFC3339.match(text)
    if match is None:
        raise BadInstant(
            "not_rfc3339",
            f"{field}: {text[:40]!r} is not RFC 3339, e.g. 2017-09-19T22:48:03+00:00",
        )
    if match[2] is None:
        raise BadInstant("without_zone", f"{field}: {text!r} has no offset; add Z or +hh:mm")
    try:
        instant = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInstant("not_rfc3339", f"{field}: {text!r}: {error}") from error
    # Milliseconds, as Kafka and Cassandra keep them: read back it is the same instant.
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def instant_text(instant: datetime) -> str:
    """UTC with milliseconds and Z.

    >>> instant_text(datetime(2017, 9, 19, 22, 48, 3, tzinfo=UTC))
    '2017-09-19T22:48:03.000Z'
    >>> instant_text(datetime(1, 1, 1, tzinfo=UTC))
    '0001-01-01T00:00:00.000Z'
    """
    # isoformat, not strftime: that writes the year 1 without its zeros on some systems.
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def from_millis(millis: int) -> datetime:
    """The instant of a Kafka timestamp (milliseconds since 1970, UTC)."""
    return datetime.fromtimestamp(millis / 1000, UTC).replace(microsecond=millis % 1000 * 1000)
