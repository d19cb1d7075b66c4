"""The pages of one store in one key period.

They hold the standing of its devices, the minutes in which they were heard by day, and the rows of
its windows. Pages of past days are not touched, unless a late sighting concerns these days.
"""

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw

from speed_layer.state.presence_pages import (
    KINDS_PER_DAY,
    NUMBER_BYTES,
    PARTS,
    KeySpan,
    PageItems,
    PresencePages,
    StatePlace,
    page_number,
)
from tally.algebra.parts import Part
from tally.people.heard import DeviceState, PresenceState
from tally.people.presence import RowKey
from tally.people.visit_parts import WINDOW_MINUTES, MacClass
from tally.people.visits import PeriodHours

_WINDOWS_OF_DAY = 1440 // WINDOW_MINUTES


# The state stores the fields by their order: a new one may only be appended, none may move.
class StoredDevice(msgspec.Struct, array_like=True):
    """A device in the state: its address class, its standing, and two lists of days.

    `days` are the days of the period on which it was heard, `visit_days` those on which visits
    begin.
    """

    mac_class: MacClass
    standing: PresenceState | None
    days: list[int]
    visit_days: list[int] = []


# The strongest signal in dBm by minute, of one day.
StoredMinutes: TypeAlias = dict[int, int]
# The value of each part, or how often each number came, by part.
StoredRow: TypeAlias = dict[str, Any]
_BY_NUMBER = msgspec.msgpack.Decoder(dict[bytes, Raw])
_BY_ROW = msgspec.msgpack.Decoder(dict[str, Raw])
_DEVICE = msgspec.msgpack.Decoder(StoredDevice)
_MINUTES = msgspec.msgpack.Decoder(StoredMinutes)
_ROW = msgspec.msgpack.Decoder(StoredRow)


@dataclass(frozen=True)
class PeriodPages:
    """The pages of one store in one key period."""

    pages: PresencePages
    store: str
    span: KeySpan

    def place(self, kind: int, part: int) -> StatePlace:
        """The place of the store on a page of a kind."""
        number = page_number(kind, self.store, part)
        return StatePlace((self.span.key, number), self.store)


@dataclass(frozen=True)
class Devices(MutableMapping[int, DeviceState]):
    """The devices of one store in one key period, read and written by pages."""

    period: PeriodPages

    def __getitem__(self, number: int) -> DeviceState:
        stored = self._items(number).get(number.to_bytes(NUMBER_BYTES))
        if stored is None:
            raise KeyError(number)
        days = _DevicePages(self.period, number, stored.days)
        return DeviceState(stored.mac_class, days, stored.standing, {*stored.visit_days})

    def __setitem__(self, number: int, device: DeviceState) -> None:
        if not isinstance(device.days, _DevicePages):
            heard, device.days = device.days, _DevicePages(self.period, number, [])
            device.days.update(heard)
        days, visited = sorted(device.days), sorted(device.visit_days)
        stored = StoredDevice(device.mac_class, device.presence, days, visited)
        self._items(number).put(number.to_bytes(NUMBER_BYTES), stored)
        # A hash is evenly distributed, and so are any of its bits.
        self.period.pages.mark_changed(self._place(number))

    def __delitem__(self, number: int) -> None:
        raise TypeError("devices leave with their period alone")

    def __iter__(self) -> Iterator[int]:
        for part in range(PARTS):
            yield from (int.from_bytes(number) for number in self._items(part))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _items(self, number: int) -> PageItems[StoredDevice]:
        return self.period.pages.items_at(self._place(number), _read_devices)

    def _place(self, number: int) -> StatePlace:
        return self.period.place(0, number % PARTS)


class _DevicePages(MutableMapping[int, StoredMinutes]):
    """The days of one device, each on a separate page."""

    def __init__(self, own: PeriodPages, number: int, days: Sequence[int]) -> None:
        self._period, self._number, self._days = own, number, set(days)

    def __getitem__(self, day: int) -> StoredMinutes:
        if day not in self._days:
            raise KeyError(day)
        return self._items(day).get(self._number.to_bytes(NUMBER_BYTES)) or {}

    def __setitem__(self, day: int, minutes: StoredMinutes) -> None:
        self._days.add(day)
        self._items(day).put(self._number.to_bytes(NUMBER_BYTES), minutes)
        self._period.pages.mark_changed(self._place(day))

    def __delitem__(self, day: int) -> None:
        raise TypeError("days leave with their period alone")

    def __iter__(self) -> Iterator[int]:
        return iter(self._days)

    def __len__(self) -> int:
        return len(self._days)

    def _place(self, day: int) -> StatePlace:
        return self._period.place(1 + KINDS_PER_DAY * day, self._number % PARTS)

    def _items(self, day: int) -> PageItems[StoredMinutes]:
        return self._period.pages.items_at(self._place(day), _read_minutes)


@dataclass(frozen=True)
class PeriodRows(MutableMapping[RowKey, dict[str, Any]]):
    """The rows of the windows of one store in one key period, read and written by pages."""

    period: PeriodPages
    parts: Sequence[Part]
    hours: PeriodHours

    def __getitem__(self, row: RowKey) -> dict[str, Any]:
        held = self._items(row).get(_row_key(row))
        if held is None:
            raise KeyError(row)
        return held

    def __setitem__(self, row: RowKey, held: dict[str, Any]) -> None:
        self._items(row).put(_row_key(row), held)
        self.period.pages.mark_changed(self._place(row))

    def __delitem__(self, row: RowKey) -> None:
        raise TypeError("rows leave with their period alone")

    def __iter__(self) -> Iterator[RowKey]:
        for place in {self._place((start, "fixed")) for start in self._starts()}:
            for text in self._items_at(place):
                start, mac_class = text.split(" ")
                yield int(start), cast(MacClass, mac_class)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _starts(self) -> range:
        return range(self.hours.start, self.hours.end, WINDOW_MINUTES)

    def _place(self, row: RowKey) -> StatePlace:
        # Neighbouring windows share a page: a micro-batch concerns few windows of a day.
        number = row[0] // WINDOW_MINUTES * PARTS // _WINDOWS_OF_DAY % PARTS
        return self.period.place(KINDS_PER_DAY + KINDS_PER_DAY * self.hours.day(row[0]), number)

    def _items(self, row: RowKey) -> PageItems[dict[str, Any]]:
        return self._items_at(self._place(row))

    def _items_at(self, place: StatePlace) -> PageItems[dict[str, Any]]:
        def read(raw: Raw) -> PageItems[dict[str, Any]]:
            return PageItems(_BY_ROW.decode(raw), self._read_row)

        return self.period.pages.items_at(place, read)

    def _read_row(self, raw: Raw) -> dict[str, Any]:
        """The value of each part, or for a non-invertible part how often each number came."""
        held, counted = _ROW.decode(raw), dict[str, Any]()
        for part in self.parts:
            if part.name in held:
                value = held[part.name]
                counted[part.name] = (
                    part.from_column(value) if part.is_invertible else Counter(value)
                )
        return counted


def _read_devices(raw: Raw) -> PageItems[StoredDevice]:
    return PageItems(_BY_NUMBER.decode(raw), _DEVICE.decode)


def _read_minutes(raw: Raw) -> PageItems[StoredMinutes]:
    return PageItems(_BY_NUMBER.decode(raw), _MINUTES.decode)


def _row_key(row: RowKey) -> str:
    start, mac_class = row
    return f"{start} {mac_class}"
