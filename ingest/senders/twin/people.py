"""A twin store, and the people who come by it on a day and what they do: the ground truth."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from math import log
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tally.people.heard import PERSONAL_CLASSES
from tally.people.visits import MacClass

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
ADDRESS_BYTES = 6
_CLASSES: tuple[MacClass, ...] = ("fixed", "random_associated", "random_probe")
_LOCAL_BIT, _GROUP_BIT = 0x02, 0x01
assert {*_CLASSES} == {*PERSONAL_CLASSES}


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
        """The opening and the closing time of a local day; the latter may be on the day after."""
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


class Phone(NamedTuple):
    """A phone that is heard: class of its address, mean seconds between two sightings."""

    mac_class: MacClass
    address: bytes
    every_seconds: float


class Person(NamedTuple):
    """A person who came by; `came` and `left` are seconds since 1970 (UTC).

    A visitor's `left` is when the person went out again. `group` is the number of the group that
    came together; one of its members pays if the group buys.
    """

    group: int
    came: float
    left: float
    is_visitor: bool
    door: int
    pays: bool
    phone: Phone | None


def draw_people(store: TwinStore, day: date, seed: int) -> list[Person]:
    """All persons of the store's local day, ordered by when they came."""
    chance = make_random(seed, store.store_id, day.isoformat(), "people")
    found: list[Person] = []
    for number, at in enumerate(_arrivals(store, day, chance)):
        found += _group(store, day, number, at, chance)
    return sorted(found, key=lambda person: (person.came, person.group))


def _arrivals(store: TwinStore, day: date, chance: Random) -> Iterator[float]:
    """Draw the times of groups in the hours in which people walk: a Poisson process by thinning."""
    size = sum(n * share for n, share in enumerate(store.behaviour.group_sizes, start=1))
    # Some days are better than others.
    factor = chance.lognormvariate(0.0, 0.1)
    opens, closes = (instant.astimezone(UTC) for instant in store.hours(day))
    begin = (opens - timedelta(hours=1)).timestamp()
    end = (closes + timedelta(hours=1)).timestamp()
    quarters = range(int(begin), int(end), 900)
    weights = [store.rate(datetime.fromtimestamp(at, UTC)) for at in quarters]
    if not any(weights):
        return
    most = max(weights)
    # The rate is scaled so that the whole day has `passers` persons in the mean.
    peak = factor * store.passers / size / sum(900 * weight / most for weight in weights)
    at = begin
    while (at := at + chance.expovariate(peak)) < end:
        quarter = min(len(weights) - 1, int(at - begin) // 900)
        if chance.random() * most < weights[quarter]:
            yield at


def _group(
    store: TwinStore,
    day: date,
    number: int,
    at: float,
    chance: Random,
) -> Iterator[Person]:
    behaviour = store.behaviour
    count = 1 + draw_index(chance, behaviour.group_sizes)
    opens, closes = (instant.timestamp() for instant in store.hours(day))
    enters = opens <= at < closes and chance.random() < behaviour.capture
    buys = enters and chance.random() < behaviour.conversion
    # `stay_mean` is the mean of the distribution, and not its median.
    middle = log(60 * behaviour.stay_mean) - behaviour.stay_sigma**2 / 2
    stay = chance.lognormvariate(middle, behaviour.stay_sigma)
    seconds = min(stay, closes + 600 - at) if enters else chance.uniform(*behaviour.pass_seconds)
    door = chance.randrange(store.doors)
    for place in range(count):
        # The members of a group go through the door one after the other.
        came = at + 0.8 * place
        pays, phone = buys and place == 0, _phone(store, chance)
        yield Person(number, came, came + seconds, enters, door, pays, phone)


def _phone(store: TwinStore, chance: Random) -> Phone | None:
    phones = store.phones
    if chance.random() >= phones.carried * phones.wifi_on:
        return None
    mac_class = _CLASSES[draw_index(chance, phones.classes)]
    is_steady = mac_class != "random_probe"
    every_seconds = phones.steady_seconds if is_steady else chance.uniform(*phones.probe_seconds)
    return Phone(mac_class, address(chance, is_local=mac_class != "fixed"), every_seconds)


def address(chance: Random, *, is_local: bool) -> bytes:
    """The address of a device: given by its maker, or made up (`is_local`)."""
    first, *rest = chance.randbytes(ADDRESS_BYTES)
    first = first & ~_GROUP_BIT | _LOCAL_BIT if is_local else first & ~(_GROUP_BIT | _LOCAL_BIT)
    return bytes((first, *rest))


class DayTruth(NamedTuple):
    """A store's day, stays in seconds; `heard`: visitors with a phone that keeps its address."""

    visitors: int
    passers: int
    groups: int
    buyers: int
    stay_seconds: float | None
    heard: int
    heard_stay_seconds: float | None


def day_truth(people: Sequence[Person]) -> DayTruth:
    """The truth of a day of one store."""
    visitors = [person for person in people if person.is_visitor]
    phones = ((person, person.phone) for person in visitors)
    heard = [person for person, phone in phones if phone and phone.mac_class != "random_probe"]
    return DayTruth(
        visitors=len(visitors),
        passers=len(people) - len(visitors),
        groups=len({person.group for person in visitors}),
        buyers=sum(person.pays for person in visitors),
        stay_seconds=_mean_stay(visitors),
        heard=len(heard),
        heard_stay_seconds=_mean_stay(heard),
    )


def write_truth(folder: Path, store: TwinStore, day: date, people: Sequence[Person]) -> DayTruth:
    """Write the day's file, `<store>-<day>.json`, and return what it says."""
    truth = day_truth(people)
    head = {"store": store.store_id, "day": day.isoformat(), "tz": store.zone.key}
    ledger = {**head, **truth._asdict(), "people": [*map(_person, people)]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{store.store_id}-{day}.json").write_text(json.dumps(ledger), "utf-8")
    return truth


def _mean_stay(people: Sequence[Person]) -> float | None:
    if not people:
        return None
    return round(sum(person.left - person.came for person in people) / len(people), 3)


def _person(person: Person) -> dict[str, Any]:
    # The phone's address is left out as personal data, even though these people do not exist.
    times = {"came": round(person.came, 3), "left": round(person.left, 3)}
    return {**person._asdict(), **times, "phone": person.phone and person.phone.mac_class}
