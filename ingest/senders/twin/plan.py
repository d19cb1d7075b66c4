"""Describes a twin store: its opening hours, its number of people, and its sensors' errors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

# How many people come in each local hour, relative to each other; pooled from opening hours of
# shops.
_WEEKDAY = (
    *(0, 0, 0, 0, 0, 0),
    *(1, 2, 4, 6, 8, 9),
    *(10, 9, 8, 9, 11, 13),
    *(11, 7, 4, 2, 1, 0),
)
_WEEKEND = (
    *(0, 0, 0, 0, 0, 0),
    *(0, 1, 3, 6, 10, 13),
    *(14, 13, 13, 12, 11, 9),
    *(6, 4, 2, 1, 0, 0),
)
_EVENING = timedelta(hours=6)


@dataclass(frozen=True)
class Behaviour:
    """How people behave; shares of 1, times in minutes."""

    # The share of all people coming by who come in.
    capture: float = 0.13
    # The share of the groups coming in that buy.
    conversion: float = 0.3
    group_sizes: Sequence[float] = (0.55, 0.30, 0.10, 0.05)
    stay_mean: float = 20.0
    stay_sigma: float = 0.8
    pass_seconds: tuple[float, float] = (20.0, 70.0)


@dataclass(frozen=True)
class Phones:
    """The phones that people carry; shares of 1, seconds between two sightings of a phone."""

    carried: float = 0.85
    wifi_on: float = 0.8
    # fixed, random_associated, random_probe.
    classes: Sequence[float] = (0.1, 0.3, 0.6)
    # The first two classes: an access point reports the clients of its network once a minute.
    steady_seconds: float = 60.0
    lost: float = 0.05
    probe_seconds: tuple[float, float] = (60.0, 300.0)


@dataclass(frozen=True)
class DoorErrors:
    """The errors of a door's counter, as shares of the crossings."""

    missed: float = 0.03
    doubled: float = 0.01
    swapped: float = 0.005


@dataclass(frozen=True)
class TwinStore:
    """One store; `passers` persons come by on a day, and most of them do not come in."""

    store_id: str
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    opens: time = time(8)
    closes: time = time(20)
    passers: int = 2_000
    doors: int = 2
    access_points: int = 3
    tills: int = 3
    behaviour: Behaviour = field(default_factory=Behaviour)
    phones: Phones = field(default_factory=Phones)
    door_errors: DoorErrors = field(default_factory=DoorErrors)
    # No sighting is sent from before this instant (seconds since 1970): the key of its device is
    # destroyed, and the gateway would refuse it.
    sightings_since: float = 0.0

    def hours(self, day: date) -> tuple[datetime, datetime]:
        """The opening and the closing time of a local day.

        A store that closes after midnight closes on the day after.
        """
        opens = datetime.combine(day, self.opens, self.zone)
        last = day + timedelta(days=1) if self.closes <= self.opens else day
        return opens, datetime.combine(last, self.closes, self.zone)

    def rate(self, at: datetime) -> float:
        """How many people come by at that time, relative to the busiest hour of the week."""
        # A store that is open after midnight has its busy hours in the evening.
        later = _EVENING if self.closes <= self.opens else timedelta(0)
        local = at.astimezone(self.zone).replace(tzinfo=None) - later
        profile = _WEEKEND if local.weekday() >= 5 else _WEEKDAY
        return profile[local.hour] / max(*_WEEKDAY, *_WEEKEND)


def make_random(seed: int, *names: object) -> Random:
    """A random generator for one part of the twin, so that any store and day can be made alone."""
    # The seed is a text and not a hash(), which differs between processes.
    return Random("/".join(map(str, (seed, *names))))


def draw_index(chance: Random, shares: Sequence[float]) -> int:
    """Draw the index of a share, with the shares as weights."""
    return chance.choices(range(len(shares)), shares)[0]
