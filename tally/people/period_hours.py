"""The hours in which a store is open in a key period, as a text in its records.

They separate customers from staff, and from devices that are there at night.
"""

from collections.abc import Sequence

from tally.people.visits import MinuteSpan, PeriodHours

# The texts for unknown hours, and for a store that is never open.
UNKNOWN, CLOSED = "unknown", "closed"


def format_opening(spans: Sequence[MinuteSpan] | None, start: int) -> str:
    """Spans of minutes since 1970 as minutes of a period that begins at `start`, each inclusive.

    >>> format_opening([(1480, 2199), (2500, 2559)], 1000)
    '480-1199,1500-1559'
    >>> format_opening([], 0), format_opening(None, 0)
    ('closed', 'unknown')
    """
    if spans is None:
        return UNKNOWN
    return ",".join(f"{first - start}-{last - start}" for first, last in spans) or CLOSED


def parse_period_hours(text: str, start: int, end: int) -> PeriodHours:
    """A key period (minutes since 1970) with the hours of its records' text."""
    return PeriodHours(start, end, parse_opening(text, start))


def parse_opening(text: str, start: int) -> list[MinuteSpan] | None:
    """The spans of a text in minutes since 1970, first to last inclusive; None if unknown.

    >>> parse_opening("480-1199,1500-1559", 1000)
    [(1480, 2199), (2500, 2559)]
    >>> parse_opening("closed", 0), parse_opening("unknown", 0)
    ([], None)
    """
    if text == UNKNOWN:
        return None
    spans = [] if text == CLOSED else text.split(",")
    bounds = (map(int, span.split("-")) for span in spans)
    return [(start + first, start + last) for first, last in bounds]
