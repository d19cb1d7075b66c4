"""A store's clock: its time zone and when its days begin, each from the day on which it holds.

By it days begin and end, and key periods: the stretches in which one key identifies the devices of
a store. A period is a number of whole days of the store, each beginning at `day_starts` of its own
clock: a store that closes at 02:00 sets 04:00; otherwise every late visit would be cut in two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tally.time.windows import EPOCH, ONE_DAY, WINDOW, utc_days

# No change of clocks moves them by as much, except where they leave a whole day out.
_NEAR_A_BORDER = timedelta(hours=3)


class DatedClock(NamedTuple):
    """The zone, and the time of its clock at which days begin, from a local day on."""

    first_day: date
    zone: ZoneInfo
    day_starts: time = time(0)

    def start_of_day(self, day: date) -> datetime:
        """The instant (UTC) at which the day begins, also where the clock leaves that time out."""
        return datetime.combine(day, self.day_starts, self.zone).astimezone(UTC)


@lru_cache(maxsize=10_000)
def _is_skipped(part: DatedClock, day: date) -> bool:
    """Whether the clock leaves the whole day out, as Samoa did on 30 December 2011."""
    return part.start_of_day(day) >= part.start_of_day(day + ONE_DAY)


@dataclass(frozen=True)
class DayClock:
    """A store's clock; `parts` are ascending, and the first of them has no beginning."""

    parts: tuple[DatedClock, ...]

    @classmethod
    def from_zone(cls, zone: ZoneInfo, day_starts: time = time(0)) -> "DayClock":
        """A clock that never changes."""
        return cls((DatedClock(date.min, zone, day_starts),))

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone that the clock shows; if that has changed, each instant has its zone of then."""
        zones = {part.zone for part in self.parts}
        return next(iter(zones)) if len(zones) == 1 else MovedZone.from_clock(self)

    @property
    def _is_constant(self) -> bool:
        return len(self.parts) == 1

    @cached_property
    def _borders(self) -> tuple[datetime, ...]:
        """The instants (UTC) at which the parts begin, without the first part."""
        return tuple(part.start_of_day(part.first_day) for part in self.parts[1:])

    def on(self, day: date) -> DatedClock:
        """The part that holds on a local day."""
        if self._is_constant:
            return self.parts[0]
        return next(part for part in reversed(self.parts) if part.first_day <= day)

    def at(self, instant: datetime) -> DatedClock:
        """The part that holds at an instant."""
        if self._is_constant:
            return self.parts[0]
        return self.parts[sum(border <= instant for border in self._borders)]

    def start_of_day(self, day: date) -> datetime:
        """The beginning of the day, UTC. Raises OverflowError at either end of the calendar."""
        return self.on(day).start_of_day(day)

    def day(self, instant: datetime) -> date:
        """The local day that holds the instant. Every instant lies in exactly one.

        >>> bar = DayClock.from_zone(ZoneInfo("Europe/Bratislava"), time(4))
        >>> bar.day(datetime(2026, 3, 2, 1, 30, tzinfo=UTC))
        datetime.date(2026, 3, 1)
        """
        part = self.at(instant)
        starts = timedelta(hours=part.day_starts.hour, minutes=part.day_starts.minute)
        since = instant.astimezone(part.zone).replace(tzinfo=None) - starts
        day, into = since.date(), since - datetime.combine(since, time())
        # Fast for thousands of windows: most lie well inside a day, which is the one that is shown.
        is_inside = _NEAR_A_BORDER <= into < ONE_DAY - _NEAR_A_BORDER
        if is_inside and self._is_constant and not _is_skipped(part, day):
            return day
        # Clocks that are set back over the beginning of a day show a time of the day before once
        # more: by the instants it is the new day.
        while instant >= self.start_of_day(day + ONE_DAY):
            day += ONE_DAY
        while instant < self.start_of_day(day):
            day -= ONE_DAY
        return day


class MovedZone(ZoneInfo):
    """The zone of a store that has moved to another time zone.

    Each instant, and each time of the clock, has the zone of then. `key` is that of the last zone.
    """

    _clock: DayClock

    @classmethod
    def from_clock(cls, clock: DayClock) -> "MovedZone":
        """The zone of a clock."""
        made = cls.no_cache(clock.parts[-1].zone.key)
        made._clock = clock
        return made

    def fromutc(self, dt: datetime, /) -> datetime:
        """The time that is shown at the instant, with the zone of then, so its offset is known."""
        instant = dt.replace(tzinfo=UTC)
        return instant.astimezone(self._clock.at(instant).zone)

    def utcoffset(self, dt: datetime | None, /) -> timedelta | None:
        """Offset of a time of the clock; a time that is shown twice is the first, or by `fold`."""
        return None if dt is None else self._localise(dt).utcoffset()

    def dst(self, dt: datetime | None, /) -> timedelta | None:
        """Daylight saving of a time of the clock."""
        return None if dt is None else self._localise(dt).dst()

    def tzname(self, dt: datetime | None, /) -> str | None:
        """The abbreviation of a time of the clock."""
        return None if dt is None else self._localise(dt).tzname()

    def _localise(self, shown: datetime) -> datetime:
        """The time of the clock in the zone that shows it."""
        readings = [shown.replace(tzinfo=part.zone) for part in self._clock.parts]
        true = [reading for reading in readings if self._clock.at(reading).zone is reading.tzinfo]
        if true:
            return true[-1 if shown.fold else 0]
        # The move leaves the time out: use the zone before, whose clocks are further back.
        return max(readings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MovedZone) and self._clock == other._clock

    def __hash__(self) -> int:
        return hash(self._clock)

    def __reduce__(self) -> tuple[Any, ...]:
        # A new clock, for this one may have cached its zone, which is this object.
        return MovedZone.from_clock, (DayClock(self._clock.parts),)


def zone_name(zone: ZoneInfo, instant: datetime) -> str:
    """The name of the zone that the clocks of a zone show at the instant."""
    shown = instant.astimezone(zone).tzinfo
    return shown.key if isinstance(shown, ZoneInfo) else zone.key


def irregular_days(clock: DayClock, most: timedelta) -> list[date]:
    """Days before a change of the clock that end before they begin, or last over `most`."""
    eves = [change.first_day - ONE_DAY for change in clock.parts[1:]]
    lengths = {day: clock.start_of_day(day + ONE_DAY) - clock.start_of_day(day) for day in eves}
    return [day for day, long in lengths.items() if not timedelta(0) < long <= most]


class LocalDay(NamedTuple):
    """A day of a store's clock, and its instants (UTC), from inclusive, to exclusive."""

    day: date
    start: datetime
    end: datetime

    @property
    def quarter_hours(self) -> int:
        """The count of quarter hours of UTC that begin in the day: 96, at clock changes 92 or 100.

        Clocks that change by half an hour or by two hours give 94 and 98, 88 and 104. On the day
        before a store gets another clock there may be any number; there is none in a day that the
        zone has left out, as Samoa did in 2011.
        """
        return (EPOCH - self.start) // WINDOW - (EPOCH - self.end) // WINDOW


def local_day(day: date, clock: DayClock) -> LocalDay:
    """The day of this date, by the store's clock.

    Raises OverflowError at either end of the calendar.

    >>> clock = DayClock.from_zone(ZoneInfo("Europe/Bratislava"))
    >>> local_day(date(2026, 3, 29), clock).quarter_hours
    92
    """
    return LocalDay(day, clock.start_of_day(day), clock.start_of_day(day + ONE_DAY))


def local_day_at(instant: datetime, clock: DayClock) -> LocalDay:
    """The local day that holds the instant. Every instant lies in exactly one."""
    return local_day(clock.day(instant), clock)


# The most days that settings accept.
MAX_KEY_DAYS = 14
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
