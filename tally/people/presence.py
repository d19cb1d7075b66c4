"""The state of one store in one key period, and the rows of its windows that follow from it.

The state is a set: for each device the minutes in which it was heard. The counts are a reading of
that set (tally/people/visits.py) and of the store's frontier: a presence counts once nothing can
join it any more. So the rows after any sightings are those of the same sightings in another order,
or all at once; only devices that were heard, or whose presence has closed since, are read again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tally.algebra.parts import Part, Value
from tally.people.heard import (
    NEVER,
    DeviceState,
    Sighting,
    extend_presence,
    first_affected_day,
    read_presence_state,
)
from tally.people.visits import (
    Device,
    MacClass,
    MinuteSignals,
    PeriodHours,
    VisitContext,
    VisitRules,
    read_device,
    signal_runs,
    window_start_minute,
)

# Start of a window in minutes since 1970 (UTC), and the class of the addresses.
RowKey: TypeAlias = tuple[int, MacClass]
DeviceSightings: TypeAlias = Sequence[Sighting]
PartNumbers: TypeAlias = dict[str, int]
# A row, and a device's contribution to it by part.
RowParts: TypeAlias = tuple[RowKey, tuple[tuple[str, int], ...]]


@dataclass
class KeyPeriod:
    """One store in one key period, whose family has these parts.

    `hours` are its begin and end and when the store is open in it; `frontier` is the latest minute
    of any sighting so far. `rows` maps row and part to the value, or, for a part that is not
    invertible, to how often each number was contributed; `waiting` maps a device to the minute up
    to which its last presence may still be joined.
    """

    parts: Sequence[Part]
    rules: VisitRules
    hours: PeriodHours
    frontier: int = NEVER
    devices: MutableMapping[int, DeviceState] = field(default_factory=dict)
    rows: MutableMapping[RowKey, dict[str, Any]] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)

    def add_sightings(self, sightings: Iterable[Sighting], reached: int = NEVER) -> set[int]:
        """Add the sightings; return the starts (minutes) of windows whose rows may have changed.

        A window that an intermediate state has changed is included, even if it is as before now.
        `reached` is the frontier that follows from other sightings than these.
        """
        heard: dict[int, list[Sighting]] = {}
        before = self.frontier
        self.frontier = max(self.frontier, reached)
        for sighting in sightings:
            heard.setdefault(sighting.number, []).append(sighting)
            self.frontier = max(self.frontier, sighting.minute)
        closed = [number for number, until in self.waiting.items() if until < self.frontier]
        changed: set[int] = set()
        for number in dict.fromkeys((*heard, *closed)):
            changed |= self._update_device(number, heard.get(number, []), before)
        return changed

    def recompute_rows(self) -> set[int]:
        """Compute all rows by the current rules; return the windows that had rows or have them."""
        changed = {start for start, _ in self.rows}
        for row in [*self.rows]:
            self.rows[row] = {}
        self.waiting.clear()
        for number in [*self.devices]:
            device = self.devices[number]
            minutes = device.minutes_since(0)
            own, known = Device(number, device.mac_class), VisitContext(self.frontier)
            found, device.visit_days = self._read(own, minutes, known)
            for row, parts in found.elements():
                self._change(row, dict(parts))
            device.presence = read_presence_state(minutes, self.rules, self.hours)
            self._update_waiting(number, device)
            self.devices[number] = device
        return changed | {start for start, _ in self.rows}

    def values(self, row: RowKey) -> list[Value]:
        """The value of each part; zeros for a row that was emptied again."""
        held = self.rows.get(row, {})
        return [_value(part, held.get(part.name)) for part in self.parts]

    def _update_device(self, number: int, heard: DeviceSightings, before: int) -> set[int]:
        """Update a device that was heard, or whose last presence the frontier has passed."""
        device = self.devices.get(number) or DeviceState()
        changed = {window_start_minute(sighting.minute) for sighting in heard}
        if {device.mac_class, *(sighting.mac_class for sighting in heard)} == {"access_point"}:
            return self._count_access_point(number, device, heard, changed)
        taken = self._extend_presence(number, device, heard)
        is_over = self.waiting.get(number, self.frontier) < self.frontier
        if taken < len(heard) or is_over:
            changed |= self._recompute_device(number, device, heard[taken:], before)
        self.devices[number] = device
        return changed

    def _extend_presence(self, number: int, device: DeviceState, heard: DeviceSightings) -> int:
        """Take the leading sightings that only lengthen the last presence; return their number."""
        for taken, sighting in enumerate(heard):
            before = device.presence
            now = extend_presence(device, sighting, self.frontier, self.rules, self.hours)
            if before is None or now is None:
                return taken
            device.add_minute(sighting.minute, sighting.dbm, now.day)
            device.presence = now
            # The signal was too weak, or another access point has heard the device in the minute.
            if now.run_last == before.run_last:
                continue
            self.waiting[number] = now.run_last + self.rules.gap_minutes
            if not now.is_static:
                window = window_start_minute(now.run_last)
                is_first = window_start_minute(before.run_last) < window
                near = {"device_minutes": 1} | ({"device_windows": 1} if is_first else {})
                self._change((window, device.mac_class), near)
        return len(heard)

    def _recompute_device(
        self, number: int, device: DeviceState, heard: DeviceSightings, before: int
    ) -> set[int]:
        """Replace the device's contribution on the days that the sightings may change."""
        first = first_affected_day(device, heard, self.rules, self.hours)
        earlier, has_visited = device.minutes_since(first), device.has_visited_before(first)
        known = VisitContext(before, has_visited)
        old_parts, _ = self._read(Device(number, device.mac_class), earlier, known)
        for sighting in heard:
            device.add_sighting(sighting, self.hours.day(sighting.minute))
        minutes, own = device.minutes_since(first), Device(number, device.mac_class)
        read_by = self.rules, self.hours
        changed = transient_windows(earlier, minutes, self.frontier, *read_by) if heard else set()
        new_parts, days = self._read(own, minutes, VisitContext(self.frontier, has_visited))
        device.presence = read_presence_state(minutes, *read_by)
        device.visit_days = days | {day for day in device.visit_days if day < first}
        self._update_waiting(number, device)
        # A device that was here for days contributes much, and one sighting changes little of it.
        added, removed = new_parts - old_parts, old_parts - new_parts
        for row, parts in added.elements():
            self._change(row, dict(parts))
        for row, parts in removed.elements():
            self._change(row, dict(parts), takes_back=True)
        return changed | {start for (start, _), _ in (*added, *removed)}

    def _count_access_point(
        self, number: int, device: DeviceState, heard: DeviceSightings, changed: set[int]
    ) -> set[int]:
        """Count an access point in the windows of its own sightings, and change no other."""
        minutes = set()
        for sighting in heard:
            day = self.hours.day(sighting.minute)
            if sighting.minute not in device.minutes_on(day):
                minutes.add(sighting.minute)
            device.add_sighting(sighting, day)
        self.devices[number] = device
        own = Device(number, device.mac_class)
        at_once = dict.fromkeys(minutes, 0)
        for start, parts in read_device(own, at_once, self.rules, self.hours).contributions:
            self._change((start, device.mac_class), parts)
        return changed

    def _read(
        self, device: Device, minutes: MinuteSignals, known: VisitContext
    ) -> "tuple[Counter[RowParts], set[int]]":
        """The device's contributions with their rows, and the days of its visits."""
        contributions, days = read_device(device, minutes, self.rules, self.hours, known)
        keyed = (((start, device.mac_class), parts) for start, parts in contributions)
        return Counter((row, (*parts.items(),)) for row, parts in keyed), days

    def _update_waiting(self, number: int, device: DeviceState) -> None:
        last = device.presence.run_last if device.presence else NEVER
        until = last + self.rules.gap_minutes
        if until >= self.frontier and device.mac_class != "access_point":
            self.waiting[number] = until
        else:
            self.waiting.pop(number, None)

    def _change(self, row: RowKey, numbers: PartNumbers, *, takes_back: bool = False) -> None:
        held = self.rows.get(row, {})
        for part in self.parts:
            if part.name not in numbers:
                continue
            number = numbers[part.name]
            if part.is_invertible:
                join = part.minus if takes_back else part.plus
                folded = part.fold((), [number])
                held[part.name] = join(part.value_in(held), folded)
            elif takes_back:
                held[part.name] -= Counter({number: 1})
            else:
                held.setdefault(part.name, Counter())[number] += 1
        # Assigned again so that a paged mapping stores the change, as for a device.
        self.rows[row] = held


class PeriodRow(NamedTuple):
    """A row of a key period that is over: its window's device-minutes, and the value of each part.

    Device-minutes are of all devices of the window, of any class and signal: equal in all its rows.
    """

    key: RowKey
    device_minutes: int
    values: list[Value]


def period_rows(
    devices: Iterable[tuple[Device, MinuteSignals]],
    parts: Sequence[Part],
    rules: VisitRules,
    hours: PeriodHours,
) -> Iterator[PeriodRow]:
    """The rows of a key period in which every presence is closed, as KeyPeriod has them at its end.

    They are in order of their windows. A window in which a device was heard has one, even of zeros.
    """
    by_row: dict[RowKey, defaultdict[str, list[int]]] = {}
    heard: Counter[int] = Counter()
    for device, minutes in devices:
        for start, count in Counter(map(window_start_minute, minutes)).items():
            heard[start] += count
            by_row.setdefault((start, device.mac_class), defaultdict(list))
        for start, contribution in read_device(device, minutes, rules, hours).contributions:
            row = by_row[start, device.mac_class]
            for name, value in contribution.items():
                row[name].append(value)
    for key, row in sorted(by_row.items()):
        values = [part.fold((), row[part.name]) for part in parts]
        yield PeriodRow(key, heard[key[0]], values)


def _value(part: Part, held: Any) -> Value:
    if held is None:
        return part.zero
    return held if part.is_invertible else part.fold((), list(held))


# A reader that takes the same sightings in smaller lots writes the intermediate states, and may end
# after one. A reader that resumes from an earlier offset, with a larger lot, has to write these
# windows too, although they are unchanged for it. A sighting changes the run of minutes that it
# falls into and no other one; so an intermediate state is a run of that run's parts: its runs from
# before, and minutes of the lot.
def transient_windows(
    earlier: MinuteSignals,
    later: MinuteSignals,
    frontier: int,
    rules: VisitRules,
    hours: PeriodHours,
) -> set[int]:
    """The windows (minutes since 1970) that an intermediate state of a lot may have changed.

    `earlier` and `later` are a device before and after a lot of sightings. The windows come in
    addition to those of the lot's own minutes, and to those in which the device's contribution is
    another one afterwards.
    """
    new = {at for at, dbm in later.items() if earlier.get(at) != dbm}
    before = [*signal_runs(earlier, rules)]
    found = set()
    for run in signal_runs(later, rules):
        own = [at for at in run if at in new]
        if not own:
            continue
        parts = [earlier_run for earlier_run in before if run[0] <= earlier_run[0] <= run[-1]]
        if _may_be_static(own, parts, rules, hours):
            # Nothing of the device's day would have counted then; other visits would be first ones.
            return {window_start_minute(at) for at in later}
        for part in parts:
            # Otherwise the frontier has not passed the end of this presence: it never counted.
            if part[-1] + rules.gap_minutes < frontier:
                # Where a presence with the first minutes may begin, as a pass or as a visit.
                entered = (at for at in part if earlier[at] >= rules.enter_dbm)
                found |= {window_start_minute(at) for at in (part[0], *entered)}
    return found


def _may_be_static(
    own: Sequence[int], parts: Sequence[Sequence[int]], rules: VisitRules, hours: PeriodHours
) -> bool:
    """Whether a part of the run may have been a long enough visit wholly outside opening hours.

    Only this rule can make a device static temporarily: a long total stay is never taken back.
    """
    outside = [at for at in own if hours.are_closed(at, at)]
    if not outside:
        return False
    ends = (at for part in parts for at in (part[0], part[-1]))
    outside += [at for at in ends if hours.are_closed(at, at)]
    return max(outside) - min(outside) + 1 >= rules.closed_minutes
