"""What a twin store is like: when it is open, how many come, how good its sensors are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

# By local hour how many come, relative to each other; pooled from opening hours of shops.
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
    """What people do; shares of 1, times in minutes."""

    # Of all who come by, how many come in.
    capture: float = 0.13
    # Of the groups that come in, how many buy.
    conversion: float = 0.3
    group_sizes: Sequence[float] = (0.55, 0.30, 0.10, 0.05)
    stay_mean: float = 20.0
    stay_sigma: float = 0.8
    pass_seconds: tuple[float, float] = (20.0, 70.0)


@dataclass(frozen=True)
class Phones:
    """What people carry; shares of 1, seconds between two sightings of one phone."""

    carried: float = 0.85
    wifi_on: float = 0.8
    # fixed, random_associated, random_probe.
    classes: Sequence[float] = (0.1, 0.3, 0.6)
    # Once a minute, as an access point reports who is on its network; the first two classes.
    steady_seconds: float = 60.0
    lost: float = 0.05
    probe_seconds: tuple[float, float] = (60.0, 300.0)


@dataclass(frozen=True)
class Doors:
    """How a door's counter errs; shares of the crossings."""

    missed: float = 0.03
    doubled: float = 0.01
    swapped: float = 0.005


@dataclass(frozen=True)
class DoorCounter:
    """How a door's counter reports: how long its intervals are, and how many seconds behind a whole
    one they begin.

    From `dies` until `recovers`, by the store's clock, nothing is counted.
    """

    interval_seconds: int = 60
    offset_seconds: int = 0
    dies: time | None = None
    recovers: time | None = None


@dataclass(frozen=True)
class TillHabits:
    """How often receipts are corrected and voided, shares of them.

    `restarts`: their numbers begin again with each day of the store.
    """

    corrected: float = 0.0
    voided: float = 0.0
    restarts: bool = False


@dataclass(frozen=True)
class TwinStore:
    """One store; `visitors` come by on a day, most of them pass."""

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
    door_errors: Doors = field(default_factory=Doors)
    till_habits: TillHabits = field(default_factory=TillHabits)
    # By door, those behind the last one are as by default.
    counters: Sequence[DoorCounter] = ()

    def counter(self, door: int) -> DoorCounter:
        """That of a door, from 0."""
        return self.counters[door] if door < len(self.counters) else DoorCounter()

    def hours(self, day: date) -> tuple[datetime, datetime]:
        """Opening and closing of a local day; a store that closes after midnight closes the day
        after."""
        opens = datetime.combine(day, self.opens, self.zone)
        last = day + timedelta(days=1) if self.closes <= self.opens else day
        return opens, datetime.combine(last, self.closes, self.zone)

    def rate(self, at: datetime) -> float:
        """How many come by then, relative to the busiest hour of the week."""
        # Who is open after midnight has its busy hours in the evening.
        later = _EVENING if self.closes <= self.opens else timedelta(0)
        local = at.astimezone(self.zone).replace(tzinfo=None) - later
        profile = _WEEKEND if local.weekday() >= 5 else _WEEKDAY
        return profile[local.hour] / max(*_WEEKDAY, *_WEEKEND)


def chance_of(seed: int, *of: object) -> Random:
    """The chance of one part of the twin alone, so that any store and day can be made by itself."""
    # A text and not a hash(): that is another one in each process.
    return Random("/".join(map(str, (seed, *of))))


def drawn(chance: Random, shares: Sequence[float]) -> int:
    """The number of a share, drawn by how large each is."""
    return chance.choices(range(len(shares)), shares)[0]
