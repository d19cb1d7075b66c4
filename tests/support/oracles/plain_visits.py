"""What sightings add up to, in plain integers: nothing of Tally takes part.

The rules are those of docs/wifi.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

CLASSES = ("random_probe", "random_associated", "fixed")
# Store, start of the quarter hour in UTC, class of the addresses.
VisitCell = tuple[str, datetime, str]
# Store, key period, device.
DeviceKey = tuple[str, Any, str]


class PlainRules(NamedTuple):
    """dBm, and minutes."""

    enter_dbm: int = -80
    stay_dbm: int = -85
    gap: int = 15
    least_stay: int = 2
    bounce: int = 5
    static: int = 240


# Of a store at an instant.
RulesOf = Callable[[str, datetime], PlainRules]


def defaults(store: str, at: datetime) -> PlainRules:
    """Those of a store of which nobody has said anything."""
    return PlainRules()


class PlainSighting(NamedTuple):
    """A sighting as it is told; `period` is whatever names its key period."""

    store: str
    period: Any
    device: str
    mac_class: str
    at: datetime
    dbm: int


class PlainVisit(NamedTuple):
    """Minutes since 1970 (UTC), first to last inclusive."""

    first: int
    last: int


class PlainCell(NamedTuple):
    """What a quarter hour holds."""

    visits: int
    returns: int
    passes: int
    bounces: int
    stay_seconds: int
    device_minutes: int
    device_windows: int
    visitors: int


def visit_cells(
    sightings: Iterable[PlainSighting],
    reached: Mapping[str, datetime] | None = None,
    rules_of: RulesOf = defaults,
) -> dict[VisitCell, PlainCell]:
    """The cells that are not all zero.

    `reached` is how far each store has come, where its last visits may still be prolonged.
    """
    counts: dict[VisitCell, Counter[str]] = defaultdict(Counter)
    people: dict[VisitCell, set[DeviceKey]] = defaultdict(set)
    for key, mac_class, minutes, rules in _customers(sightings, rules_of):
        store, stretches = key[0], _stretches(minutes, rules)
        windows = set()
        for minute, dbm in minutes.items():
            if dbm >= rules.stay_dbm:
                cell = _cell(store, minute, mac_class)
                counts[cell]["device_minutes"] += 1
                windows.add(cell)
        for cell in windows:
            counts[cell]["device_windows"] += 1
        if mac_class == "random_probe":
            continue
        came_before = False
        for stretch in stretches:
            end = datetime.fromtimestamp(60 * (stretch[-1] + rules.gap), UTC)
            if reached is not None and not end < _whole_minute(reached[store]):
                continue
            visit = _visit(minutes, stretch, rules)
            if visit is None:
                counts[_cell(store, stretch[0], mac_class)]["passes"] += 1
                continue
            long = visit.last - visit.first + 1
            cell = _cell(store, visit.first, mac_class)
            people[cell].add(key)
            counts[cell]["visits"] += 1
            counts[cell]["returns"] += came_before
            came_before = True
            counts[cell]["stay_seconds"] += 60 * long
            counts[cell]["bounces"] += long < rules.bounce
    return {
        cell: PlainCell._make(
            [*(found[name] for name in PlainCell._fields[:-1]), len(people[cell])]
        )
        for cell, found in counts.items()
    }


def visits_of(sightings: Iterable[PlainSighting]) -> dict[DeviceKey, list[PlainVisit]]:
    """Of each device of a store and key period that came in its visits."""
    found: dict[DeviceKey, list[PlainVisit]] = {}
    for key, mac_class, minutes, rules in _customers(sightings, defaults):
        visits = _visits(minutes, rules)
        if visits and mac_class != "random_probe":
            found[key] = visits
    return found


def _customers(
    sightings: Iterable[PlainSighting], rules_of: RulesOf
) -> Iterator[tuple[DeviceKey, str, dict[int, int], PlainRules]]:
    """Devices that are no furniture and no staff: class of the address, strongest dBm by minute."""
    devices: dict[DeviceKey, list[PlainSighting]] = defaultdict(list)
    for one in sightings:
        devices[one.store, one.period, one.device].append(one)
    for key, told in devices.items():
        minutes: dict[int, int] = {}
        for one in told:
            minute = int(one.at.timestamp()) // 60
            minutes[minute] = max(one.dbm, minutes.get(minute, -999))
        rules = rules_of(told[0].store, told[0].at)
        if sum(one.last - one.first + 1 for one in _visits(minutes, rules)) < rules.static:
            yield key, max((one.mac_class for one in told), key=CLASSES.index), minutes, rules


def _visits(minutes: Mapping[int, int], rules: PlainRules) -> list[PlainVisit]:
    found = (_visit(minutes, stretch, rules) for stretch in _stretches(minutes, rules))
    return [visit for visit in found if visit]


def _stretches(minutes: Mapping[int, int], rules: PlainRules) -> list[list[int]]:
    found: list[list[int]] = []
    for minute in sorted(minutes):
        if minutes[minute] < rules.stay_dbm:
            continue
        if found and minute <= found[-1][-1] + rules.gap:
            found[-1].append(minute)
        else:
            found.append([minute])
    return found


def _visit(minutes: Mapping[int, int], stretch: list[int], rules: PlainRules) -> PlainVisit | None:
    for first in stretch:
        if minutes[first] >= rules.enter_dbm:
            last = stretch[-1]
            return PlainVisit(first, last) if last - first + 1 >= rules.least_stay else None
    return None


def _cell(store: str, minute: int, mac_class: str) -> VisitCell:
    return store, datetime.fromtimestamp(900 * (minute // 15), UTC), mac_class


def _whole_minute(instant: datetime) -> datetime:
    return instant - timedelta(seconds=instant.second, microseconds=instant.microsecond)
