"""What a store has heard in one key period, and what its windows hold by it.

The state is a set: by device the minutes in which it was heard. What is counted is a reading of
that set (tally/visits.py), and of how far the store has come: a presence counts once nothing can
join it any more. So the rows after any sightings are those of the same sightings in another order,
or all at once; only devices that were heard, or whose presence has closed since, are read anew.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tally.algebra.parts import Part, Value
from tally.passing import Lot, passing_windows
from tally.visit_parts import Device, MacClass, brought, window_of
from tally.visits import MINUTE_SECONDS, PeriodHours, VisitRules, presences

# What is known of a device only rises: one that has joined the network once is no random probe, and
# what has said once that it is an access point is nobody's device, whoever else hears it.
CLASSES: tuple[MacClass, ...] = ("random_probe", "random_associated", "fixed", "access_point")
# Those of people's devices, which are all that a sender may name.
CARRIED = CLASSES[:-1]
# Start of a window in minutes since 1970 (UTC), and the class of the addresses.
RowKey: TypeAlias = tuple[int, MacClass]
# A row, and what a device brings to it by part.
RowParts: TypeAlias = tuple[RowKey, tuple[tuple[str, int], ...]]
NEVER = -(2**62)


class Sighting(NamedTuple):
    """A device heard by an access point: its number (128 bits), seconds since 1970 (UTC), dBm."""

    number: int
    mac_class: MacClass
    seconds: int
    dbm: int

    @property
    def minute(self) -> int:
        """Minutes since 1970 (UTC)."""
        return self.seconds // MINUTE_SECONDS


@dataclass
class HeardDevice:
    """What is kept of one device: class of its address, minute to strongest signal in dBm."""

    mac_class: MacClass = CLASSES[0]
    minutes: dict[int, int] = field(default_factory=dict)

    def hear(self, sighting: Sighting) -> None:
        """Take one sighting, in whatever order, however often."""
        minute, dbm = sighting.minute, sighting.dbm
        self.minutes[minute] = max(dbm, self.minutes.get(minute, dbm))
        self.mac_class = max(self.mac_class, sighting.mac_class, key=CLASSES.index)


@dataclass
class KeyPeriod:
    """One store in one key period, whose family has these parts.

    `hours` are its begin and end and when the store is open in it; `frontier` is the
    latest minute of any sighting so far. `rows` has by row and part its value, or of what takes
    nothing back how often each number was brought; `waiting` by device the minute up to which a
    presence of it may still be joined.
    """

    parts: Sequence[Part]
    rules: VisitRules
    hours: PeriodHours
    frontier: int = NEVER
    devices: MutableMapping[int, HeardDevice] = field(default_factory=dict)
    rows: dict[RowKey, dict[str, Any]] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)

    def take(self, sightings: Iterable[Sighting], reached: int = NEVER) -> set[int]:
        """The windows of which the sightings may have changed a row, by their starts in minutes.

        Also those that are as they were, if they were not for a moment (tally/passing.py).
        `reached` is how far the store has come, where
        other sightings than these say so.
        """
        heard: dict[int, list[Sighting]] = {}
        before = self.frontier
        self.frontier = max(self.frontier, reached)
        for sighting in sightings:
            heard.setdefault(sighting.number, []).append(sighting)
            self.frontier = max(self.frontier, sighting.minute)
        closed = [number for number, until in self.waiting.items() if until < self.frontier]
        told: set[int] = set()
        for number in dict.fromkeys((*heard, *closed)):
            told |= self._move(number, heard.get(number, []), before)
        return told

    def values(self, row: RowKey) -> list[Value]:
        """The value of each part; zeros of a row that was emptied again."""
        held = self.rows.get(row, {})
        return [_value(part, held.get(part.name)) for part in self.parts]

    def _move(self, number: int, heard: Sequence[Sighting], before: int) -> set[int]:
        """Take back what the device had brought, and add what it brings now."""
        device = self.devices.get(number) or HeardDevice()
        told = {window_of(one.minute) for one in heard}
        if {device.mac_class, *(one.mac_class for one in heard)} == {"access_point"}:
            return self._be_there(number, device, heard, told)
        had, earlier = self._brought(number, device, before), dict(device.minutes)
        for sighting in heard:
            device.hear(sighting)
        if heard:
            lot = Lot(earlier, device.minutes, self.frontier)
            told |= passing_windows(lot, self.rules, self.hours)
        # Kept anew and not only changed: where they are kept may be somewhere else.
        self.devices[number] = device
        has = self._brought(number, device, self.frontier)
        self._wait(number, device)
        # A device that has been here for days brings much, and one sighting changes little of it.
        more, less = has - had, had - has
        for row, parts in more.elements():
            self._add(row, dict(parts))
        for row, parts in less.elements():
            self._take_back(row, dict(parts))
        return told | {start for (start, _), _ in (*more, *less)}

    def _be_there(
        self,
        number: int,
        device: HeardDevice,
        heard: Sequence[Sighting],
        told: set[int],
    ) -> set[int]:
        """An access point is there in the windows that it says so, and moves nothing in others.

        It says so each minute: read anew all of its day would be told each time.
        """
        minutes = {one.minute for one in heard} - device.minutes.keys()
        own = Device(number, device.mac_class)
        for sighting in heard:
            device.hear(sighting)
        self.devices[number] = device
        at_once = dict.fromkeys(minutes, 0)
        for start, parts in brought(own, at_once, self.rules, self.hours):
            self._add((start, device.mac_class), parts)
        return told

    def _brought(self, number: int, device: HeardDevice, reached: int) -> "Counter[RowParts]":
        told = Device(number, device.mac_class)
        found = brought(told, device.minutes, self.rules, self.hours, reached)
        return Counter(((start, device.mac_class), (*parts.items(),)) for start, parts in found)

    def _wait(self, number: int, device: HeardDevice) -> None:
        ends = [one.last for one in presences(device.minutes, self.rules)]
        until = max(ends, default=NEVER) + self.rules.gap_minutes
        if until >= self.frontier and device.mac_class != "access_point":
            self.waiting[number] = until
        else:
            self.waiting.pop(number, None)

    def _add(self, row: RowKey, told: dict[str, int]) -> None:
        held = self.rows.setdefault(row, {})
        for part in self.parts:
            if part.name not in told:
                continue
            number = told[part.name]
            if part.is_invertible:
                so_far = held.get(part.name, part.zero)
                held[part.name] = part.plus(so_far, part.of((), [number]))
            else:
                held.setdefault(part.name, Counter())[number] += 1

    def _take_back(self, row: RowKey, told: dict[str, int]) -> None:
        held = self.rows[row]
        for part in self.parts:
            if part.name not in told:
                continue
            number = told[part.name]
            if part.is_invertible:
                one = part.of((), [number])
                held[part.name] = part.minus(held[part.name], one)
            else:
                held[part.name] -= Counter({number: 1})


class PeriodRow(NamedTuple):
    """A row of a key period that is over: its window's device-minutes, and the value of each part.

    Device-minutes are of all devices of the window, whatever class and signal: equal in all of its
    rows.
    """

    key: RowKey
    device_minutes: int
    values: list[Value]


def period_rows(
    devices: Iterable[tuple[int, HeardDevice]],
    parts: Sequence[Part],
    rules: VisitRules,
    hours: PeriodHours,
) -> Iterator[PeriodRow]:
    """The rows of a key period in which everything is closed: those of KeyPeriod at its end.

    In order of their windows. Where a device was heard there is a row, also one of zeros.
    """
    told: dict[RowKey, defaultdict[str, list[int]]] = {}
    heard: Counter[int] = Counter()
    for number, device in devices:
        own = Device(number, device.mac_class)
        for start, count in Counter(map(window_of, device.minutes)).items():
            heard[start] += count
            told.setdefault((start, device.mac_class), defaultdict(list))
        for start, more in brought(own, device.minutes, rules, hours):
            row = told[start, device.mac_class]
            for name, value in more.items():
                row[name].append(value)
    for key, row in sorted(told.items()):
        values = [part.of((), row[part.name]) for part in parts]
        yield PeriodRow(key, heard[key[0]], values)


def _value(part: Part, held: Any) -> Value:
    if held is None:
        return part.zero
    return held if part.is_invertible else part.of((), list(held))
