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
from tally.heard import NEVER, HeardDevice, Sighting, continued, first_day_of, standing_of
from tally.passing import HeardLot, passing_windows
from tally.visit_parts import Device, KnownBefore, MacClass, brought, visit_days, window_of
from tally.visits import Heard, PeriodHours, VisitRules

# Start of a window in minutes since 1970 (UTC), and the class of the addresses.
RowKey: TypeAlias = tuple[int, MacClass]
DeviceSightings: TypeAlias = Sequence[Sighting]
# A row, and what a device brings to it by part.
RowParts: TypeAlias = tuple[RowKey, tuple[tuple[str, int], ...]]


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
    rows: MutableMapping[RowKey, dict[str, Any]] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)

    def take(self, sightings: Iterable[Sighting], reached: int = NEVER) -> set[int]:
        """The windows of which the sightings may have changed a row, by their starts in minutes.

        Also those that are as they were, if they were not for a moment (tally/passing.py).
        `reached` is how far the store has come, where other sightings than these say so.
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

    def read_anew(self) -> set[int]:
        """All that was heard, by the rules of now; the windows that had rows or have them."""
        told = {start for start, _ in self.rows}
        for row in [*self.rows]:
            self.rows[row] = {}
        self.waiting.clear()
        for number in [*self.devices]:
            device = self.devices[number]
            minutes = device.since(0)
            own, known = Device(number, device.mac_class), KnownBefore(self.frontier)
            for row, parts in self._brought(own, minutes, known).elements():
                self._add(row, dict(parts))
            device.standing = standing_of(minutes, self.rules, self.hours)
            device.visited = visit_days(own, minutes, self.rules, self.hours, known)
            self._wait(number, device)
            self.devices[number] = device
        return told | {start for start, _ in self.rows}

    def values(self, row: RowKey) -> list[Value]:
        """The value of each part; zeros of a row that was emptied again."""
        held = self.rows.get(row, {})
        return [_value(part, held.get(part.name)) for part in self.parts]

    def _move(self, number: int, heard: DeviceSightings, before: int) -> set[int]:
        """The device was heard, or the store has come to where its last presence is over."""
        device = self.devices.get(number) or HeardDevice()
        told = {window_of(one.minute) for one in heard}
        if {device.mac_class, *(one.mac_class for one in heard)} == {"access_point"}:
            return self._be_there(number, device, heard, told)
        taken = self._continue(number, device, heard)
        is_over = self.waiting.get(number, self.frontier) < self.frontier
        if taken < len(heard) or is_over:
            told |= self._read_anew(number, device, heard[taken:], before)
        self.devices[number] = device
        return told

    def _continue(self, number: int, device: HeardDevice, heard: DeviceSightings) -> int:
        """Take the first of the sightings that only make its last presence longer; how many."""
        for taken, sighting in enumerate(heard):
            before = device.standing
            now = continued(device, sighting, self.frontier, self.rules, self.hours)
            if before is None or now is None:
                return taken
            device.add(sighting.minute, sighting.dbm, now.day)
            device.standing = now
            # Too weak, or one more access point that has heard it in the minute.
            if now.run_last == before.run_last:
                continue
            self.waiting[number] = now.run_last + self.rules.gap_minutes
            if not now.is_static:
                window = window_of(now.run_last)
                is_first = window_of(before.run_last) < window
                near = {"device_minutes": 1} | ({"device_windows": 1} if is_first else {})
                self._add((window, device.mac_class), near)
        return len(heard)

    def _read_anew(
        self, number: int, device: HeardDevice, heard: DeviceSightings, before: int
    ) -> set[int]:
        """Take back what the device had brought, and add what it brings now, of the days that the
        sightings may change."""
        first = first_day_of(device, heard, self.rules, self.hours)
        earlier, has_visited = device.since(first), device.has_visited_before(first)
        known = KnownBefore(before, has_visited)
        had = self._brought(Device(number, device.mac_class), earlier, known)
        for sighting in heard:
            device.hear(sighting, self.hours.day(sighting.minute))
        minutes, own = device.since(first), Device(number, device.mac_class)
        lot = HeardLot(earlier, minutes, self.frontier)
        told = passing_windows(lot, self.rules, self.hours) if heard else set()
        known = KnownBefore(self.frontier, has_visited)
        has = self._brought(own, minutes, known)
        device.standing = standing_of(minutes, self.rules, self.hours)
        left = {day for day in device.visited if day < first}
        device.visited = left | visit_days(own, minutes, self.rules, self.hours, known)
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
        heard: DeviceSightings,
        told: set[int],
    ) -> set[int]:
        """An access point is there in the windows that it says so, and moves nothing in others.

        It says so each minute: read anew all of its day would be told each time.
        """
        minutes = set()
        for sighting in heard:
            day = self.hours.day(sighting.minute)
            if sighting.minute not in device.heard_on(day):
                minutes.add(sighting.minute)
            device.hear(sighting, day)
        self.devices[number] = device
        own = Device(number, device.mac_class)
        at_once = dict.fromkeys(minutes, 0)
        for start, parts in brought(own, at_once, self.rules, self.hours):
            self._add((start, device.mac_class), parts)
        return told

    def _brought(self, device: Device, minutes: Heard, known: KnownBefore) -> "Counter[RowParts]":
        found = brought(device, minutes, self.rules, self.hours, known)
        keyed = (((start, device.mac_class), parts) for start, parts in found)
        return Counter((row, (*parts.items(),)) for row, parts in keyed)

    def _wait(self, number: int, device: HeardDevice) -> None:
        last = device.standing.run_last if device.standing else NEVER
        until = last + self.rules.gap_minutes
        if until >= self.frontier and device.mac_class != "access_point":
            self.waiting[number] = until
        else:
            self.waiting.pop(number, None)

    def _add(self, row: RowKey, told: dict[str, int]) -> None:
        held = self.rows.get(row, {})
        for part in self.parts:
            if part.name not in told:
                continue
            number = told[part.name]
            if part.is_invertible:
                so_far = held.get(part.name, part.zero)
                held[part.name] = part.plus(so_far, part.of((), [number]))
            else:
                held.setdefault(part.name, Counter())[number] += 1
        # Kept anew, as a device is.
        self.rows[row] = held

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
        self.rows[row] = held


class PeriodRow(NamedTuple):
    """A row of a key period that is over: its window's device-minutes, and the value of each part.

    Device-minutes are of all devices of the window, whatever class and signal: equal in all of its
    rows.
    """

    key: RowKey
    device_minutes: int
    values: list[Value]


def period_rows(
    devices: Iterable[tuple[Device, Heard]],
    parts: Sequence[Part],
    rules: VisitRules,
    hours: PeriodHours,
) -> Iterator[PeriodRow]:
    """The rows of a key period in which everything is closed: those of KeyPeriod at its end.

    In order of their windows. Where a device was heard there is a row, also one of zeros.
    """
    told: dict[RowKey, defaultdict[str, list[int]]] = {}
    heard: Counter[int] = Counter()
    for device, minutes in devices:
        for start, count in Counter(map(window_of, minutes)).items():
            heard[start] += count
            told.setdefault((start, device.mac_class), defaultdict(list))
        for start, more in brought(device, minutes, rules, hours):
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
