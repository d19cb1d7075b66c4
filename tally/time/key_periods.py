"""Key periods: the stretches in which one key identifies the devices of a store.

A period is a number of whole days of the store, each beginning at `day_starts` of its own clock: a
store that closes at 02:00 sets 04:00; otherwise every late visit would be cut in two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from tally.time.day_clock import DayClock
from tally.time.windows import utc_days

# The most days that settings accept.
MAX_DAYS = 14
# Returns, for the start of a window, the UTC days of records that it may depend on, its own first.
InputDays = Callable[[datetime], tuple[date, ...]]


class DatedPeriod(NamedTuple):
    """First day of a key period, and its instants (UTC), from inclusive, to exclusive."""

    first_day: date
    start: datetime
    end: datetime


@dataclass(frozen=True)
class KeyDays:
    """The number of local days of one key."""

    days: int = 1

    def period(self, instant: datetime, clock: DayClock) -> DatedPeriod:
        """The key period that holds the instant. Each instant has one, also where clocks change."""
        day = clock.day(instant)
        # Counted from the first of all days, so that every process finds the same periods.
        first = date.fromordinal(day.toordinal() // self.days * self.days)
        after = first + timedelta(days=self.days)
        return DatedPeriod(first, clock.start_of_day(first), clock.start_of_day(after))

    def utc_days(self, instant: datetime, clock: DayClock) -> tuple[date, ...]:
        """The UTC days on which records of the instant's key period may lie, its own first."""
        own, period = instant.astimezone(UTC).date(), self.period(instant, clock)
        days = utc_days(period.start, period.end)
        return (own, *(day for day in days if day != own))


def days_around(days: Sequence[date], key_days: int) -> list[date]:
    """The UTC days that records of the days' key periods may lie on, ascending.

    A period of so many local days that touches a day begins, and ends, at most as many days from
    it, in any zone; and one more where clocks are set back, or a store moves to another zone.
    """
    reach = key_days + 1
    shifts = range(-reach, reach + 1)
    ordinals = {day.toordinal() + shift for day in days for shift in shifts}
    within = (number for number in ordinals if 1 <= number <= date.max.toordinal())
    return [date.fromordinal(number) for number in sorted(within)]
