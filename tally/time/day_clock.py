"""A store's clock: its time zone and when its days begin, each from the day on which it holds."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

_ONE_DAY = timedelta(days=1)
# No change of clocks moves them by as much, except where they leave a whole day out.
_NEAR_A_BORDER = timedelta(hours=3)


class DatedClock(NamedTuple):
    """The zone, and the time of its clock at which days begin, from a local day on."""

    first_day: date
    zone: ZoneInfo
    day_starts: time = time(0)

    @property
    def after_midnight(self) -> timedelta:
        """The time after midnight at which days begin, by the clock."""
        return timedelta(hours=self.day_starts.hour, minutes=self.day_starts.minute)

    def start_of_day(self, day: date) -> datetime:
        """The instant (UTC) at which the day begins, also where the clock leaves that time out."""
        return datetime.combine(day, self.day_starts, self.zone).astimezone(UTC)


@lru_cache(maxsize=10_000)
def _is_skipped(part: DatedClock, day: date) -> bool:
    """Whether the clock leaves the whole day out, as Samoa did on 30 December 2011."""
    return part.start_of_day(day) >= part.start_of_day(day + _ONE_DAY)


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
        since = instant.astimezone(part.zone).replace(tzinfo=None) - part.after_midnight
        day, into = since.date(), since - datetime.combine(since, time())
        # Fast for thousands of windows: most lie well inside a day, which is the one that is shown.
        is_inside = _NEAR_A_BORDER <= into < _ONE_DAY - _NEAR_A_BORDER
        if is_inside and self._is_constant and not _is_skipped(part, day):
            return day
        # Clocks that are set back over the beginning of a day show a time of the day before once
        # more: by the instants it is the new day.
        while instant >= self.start_of_day(day + _ONE_DAY):
            day += _ONE_DAY
        while instant < self.start_of_day(day):
            day -= _ONE_DAY
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
    """The days before a change of the clock that it makes too short or too long, ascending.

    Such a day ends no later than it begins, or lasts longer than `most`.
    """
    eves = [change.first_day - _ONE_DAY for change in clock.parts[1:]]
    lengths = {day: clock.start_of_day(day + _ONE_DAY) - clock.start_of_day(day) for day in eves}
    return [day for day, long in lengths.items() if not timedelta(0) < long <= most]
