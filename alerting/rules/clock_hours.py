"""The hours of a rule: its weekdays, and its start and end time on the store's clock."""

from alerting.rules.rule import ClockHours
from tally.time.opening_hours import WEEKDAYS, ClockSpan, expand_weekdays, parse_clock_span


def parse_weekdays(hours: ClockHours) -> tuple[int, ...]:
    """The weekdays on which the span begins, in days since Monday. Raises ValueError.

    >>> parse_weekdays(ClockHours("sat-mon", "22:00", "02:00"))
    (5, 6, 0)
    """
    # A stores file may name holidays too, but a rule has no calendar of holidays.
    found = tuple(WEEKDAYS.index(name) for name in expand_weekdays(hours.days) if name in WEEKDAYS)
    if not found:
        raise ValueError(f"{hours.days!r}: holidays are days of the week here, e.g. mon-fri")
    return found


def parse_span(hours: ClockHours) -> ClockSpan:
    """The start and end in minutes since midnight; an end past midnight is above 1440.

    Raises ValueError.

    >>> parse_span(ClockHours("sat-mon", "22:00", "02:00"))
    ClockSpan(opens=1320, closes=1560)
    """
    return parse_clock_span(hours.days, f"{hours.from_}-{hours.to}")
