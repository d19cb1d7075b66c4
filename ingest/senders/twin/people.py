"""Draws the people who come by a store on one day, and what they do: the ground truth."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from math import log
from random import Random
from typing import NamedTuple

from ingest.senders.twin.plan import TwinStore, draw_index, make_random
from tally.people.heard import PERSONAL_CLASSES
from tally.people.visit_parts import MacClass

ADDRESS_BYTES = 6
_CLASSES: tuple[MacClass, ...] = ("fixed", "random_associated", "random_probe")
_LOCAL_BIT, _GROUP_BIT = 0x02, 0x01
assert {*_CLASSES} == {*PERSONAL_CLASSES}


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
    """Draw the times at which groups come by, as a Poisson process by thinning.

    It covers the hours in which people walk.
    """
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
        yield Person(
            number, came, came + seconds, enters, door, buys and place == 0, _phone(store, chance)
        )


def _phone(store: TwinStore, chance: Random) -> Phone | None:
    phones = store.phones
    if chance.random() >= phones.carried * phones.wifi_on:
        return None
    mac_class = _CLASSES[draw_index(chance, phones.classes)]
    every_seconds = (
        chance.uniform(*phones.probe_seconds)
        if mac_class == "random_probe"
        else phones.steady_seconds
    )
    return Phone(mac_class, address(chance, is_local=mac_class != "fixed"), every_seconds)


def address(chance: Random, *, is_local: bool) -> bytes:
    """The address of a device: given by its maker, or made up (`is_local`)."""
    first, *rest = chance.randbytes(ADDRESS_BYTES)
    first = first & ~_GROUP_BIT | _LOCAL_BIT if is_local else first & ~(_GROUP_BIT | _LOCAL_BIT)
    return bytes((first, *rest))
