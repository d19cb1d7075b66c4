"""Key periods: how long one key makes a store's devices the same devices.

A period is a number of whole days of the store, each beginning at `day_starts` of its own clock: a
store that closes at 02:00 lets its days begin at 04:00, else every late visit would be cut in two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

# As settings take them at most.
MOST_DAYS = 14


class DatedPeriod(NamedTuple):
    """First day of a key period, and its instants (UTC), from inclusive, to exclusive."""

    first_day: date
    start: datetime
    end: datetime


@dataclass(frozen=True)
class KeyDays:
    """So many local days a key, each beginning at this time of the clock."""

    days: int = 1
    day_starts: time = time(0)

    def period(self, instant: datetime, zone: ZoneInfo) -> DatedPeriod:
        """The key period that holds the instant. Every instant lies in one, whatever clocks do.

        >>> KeyDays(day_starts=time(4)).period(
        ...     datetime(2026, 3, 2, 1, 30, tzinfo=UTC), ZoneInfo("Europe/Bratislava")
        ... ).first_day
        datetime.date(2026, 3, 1)
        """
        day = self._day(instant, zone)
        # Counted from the first of all days, so that every process finds the same periods.
        first = date.fromordinal(day.toordinal() // self.days * self.days)
        after = first + timedelta(days=self.days)
        return DatedPeriod(first, self._begins(first, zone), self._begins(after, zone))

    def utc_days(self, instant: datetime, zone: ZoneInfo) -> tuple[date, ...]:
        """The UTC days on which records of the instant's key period may lie, its own first."""
        own, period = instant.astimezone(UTC).date(), self.period(instant, zone)
        first, last = period.start.date(), (period.end - timedelta.resolution).date()
        ordinals = range(first.toordinal(), last.toordinal() + 1)
        days = map(date.fromordinal, ordinals)
        return (own, *(day for day in days if day != own))

    def _day(self, instant: datetime, zone: ZoneInfo) -> date:
        shown = instant.astimezone(zone).replace(tzinfo=None)
        since = timedelta(hours=self.day_starts.hour, minutes=self.day_starts.minute)
        day = (shown - since).date()
        # Where clocks are set back over the beginning of a day, they show a time of the day before
        # once more: by the instants it is the new day.
        if instant >= self._begins(day + timedelta(days=1), zone):
            return day + timedelta(days=1)
        return day if instant >= self._begins(day, zone) else day - timedelta(days=1)

    def _begins(self, day: date, zone: ZoneInfo) -> datetime:
        return day_begins(day, self.day_starts, zone)


def day_begins(day: date, day_starts: time, zone: ZoneInfo) -> datetime:
    """When the zone's clock begins the day, in UTC, also where it leaves that time out."""
    return datetime.combine(day, day_starts, zone).astimezone(UTC)


def days_around(days: Sequence[date], key_days: int) -> list[date]:
    """The UTC days that records of the days' key periods may lie on, ascending.

    A period of so many local days that touches a day begins, and ends, at most as many days from
    it, in whatever zone; and one more where clocks are set back.
    """
    reach = key_days + 1
    shifts = range(-reach, reach + 1)
    ordinals = {day.toordinal() + shift for day in days for shift in shifts}
    within = (number for number in ordinals if 1 <= number <= date.max.toordinal())
    return [date.fromordinal(number) for number in sorted(within)]
