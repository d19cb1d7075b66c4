"""The pages of one store in one key period: how its devices stand, by day the minutes in which they
were heard, and the rows of its windows.

Those of the days before are left as they lie, until something of these days is told late.
"""

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw

from speed_layer.presence_pages import (
    KINDS_OF_DAY,
    NUMBER_BYTES,
    PARTS,
    KeySpan,
    PageItems,
    PresencePages,
    StatePlace,
    page_number,
)
from tally.algebra.parts import Part
from tally.heard import DeviceStanding, HeardDevice
from tally.presence import RowKey
from tally.visit_parts import WINDOW_MINUTES, MacClass
from tally.visits import PeriodHours

_WINDOWS_OF_DAY = 1440 // WINDOW_MINUTES


# Kept in the state by the order of its fields: one may come behind them, none may move.
class KeptDevice(msgspec.Struct, array_like=True):
    """A device: class of its address, how it stands, on which days of the period it was heard, and
    on which visits of it begin."""

    mac_class: MacClass
    standing: DeviceStanding | None
    days: list[int]
    visited: list[int] = []


# Minute to strongest signal in dBm, of one day.
KeptMinutes: TypeAlias = dict[int, int]
# By part its value, or how often each number came.
KeptRow: TypeAlias = dict[str, Any]
_BY_NUMBER = msgspec.msgpack.Decoder(dict[bytes, Raw])
_BY_ROW = msgspec.msgpack.Decoder(dict[str, Raw])
_DEVICE = msgspec.msgpack.Decoder(KeptDevice)
_MINUTES = msgspec.msgpack.Decoder(KeptMinutes)
_ROW = msgspec.msgpack.Decoder(KeptRow)


@dataclass(frozen=True)
class PeriodPages:
    """The pages of one store in one key period."""

    pages: PresencePages
    store: str
    span: KeySpan

    def place(self, kind: int, part: int) -> StatePlace:
        """What the store has on a page of a kind."""
        number = page_number(kind, self.store, part)
        return StatePlace((self.span.key, number), self.store)


@dataclass(frozen=True)
class Devices(MutableMapping[int, HeardDevice]):
    """The devices of one store in one key period, read and written by pages."""

    own: PeriodPages

    def __getitem__(self, number: int) -> HeardDevice:
        kept = self._shelf(number).get(number.to_bytes(NUMBER_BYTES))
        if kept is None:
            raise KeyError(number)
        days = _DevicePages(self.own, number, kept.days)
        return HeardDevice(kept.mac_class, days, kept.standing, {*kept.visited})

    def __setitem__(self, number: int, device: HeardDevice) -> None:
        if not isinstance(device.days, _DevicePages):
            heard, device.days = device.days, _DevicePages(self.own, number, [])
            device.days.update(heard)
        days, visited = sorted(device.days), sorted(device.visited)
        kept = KeptDevice(device.mac_class, device.standing, days, visited)
        self._shelf(number).put(number.to_bytes(NUMBER_BYTES), kept)
        # A hash is evenly spread: any bits of it are.
        self.own.pages.change(self._place(number))

    def __delitem__(self, number: int) -> None:
        raise TypeError("devices leave with their period alone")

    def __iter__(self) -> Iterator[int]:
        for part in range(PARTS):
            yield from (int.from_bytes(number) for number in self._shelf(part))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _shelf(self, number: int) -> PageItems[KeptDevice]:
        return self.own.pages.shelf(self._place(number), _devices)

    def _place(self, number: int) -> StatePlace:
        return self.own.place(0, number % PARTS)


class _DevicePages(MutableMapping[int, KeptMinutes]):
    """The days of one device, each on a page of its own."""

    def __init__(self, own: PeriodPages, number: int, days: Sequence[int]) -> None:
        self._own, self._number, self._days = own, number, set(days)

    def __getitem__(self, day: int) -> KeptMinutes:
        if day not in self._days:
            raise KeyError(day)
        return self._shelf(day).get(self._number.to_bytes(NUMBER_BYTES)) or {}

    def __setitem__(self, day: int, minutes: KeptMinutes) -> None:
        self._days.add(day)
        self._shelf(day).put(self._number.to_bytes(NUMBER_BYTES), minutes)
        self._own.pages.change(self._place(day))

    def __delitem__(self, day: int) -> None:
        raise TypeError("days leave with their period alone")

    def __iter__(self) -> Iterator[int]:
        return iter(self._days)

    def __len__(self) -> int:
        return len(self._days)

    def _place(self, day: int) -> StatePlace:
        return self._own.place(1 + KINDS_OF_DAY * day, self._number % PARTS)

    def _shelf(self, day: int) -> PageItems[KeptMinutes]:
        return self._own.pages.shelf(self._place(day), _minutes)


@dataclass(frozen=True)
class PeriodRows(MutableMapping[RowKey, dict[str, Any]]):
    """The rows of the windows of one store in one key period, read and written by pages."""

    own: PeriodPages
    parts: Sequence[Part]
    hours: PeriodHours

    def __getitem__(self, row: RowKey) -> dict[str, Any]:
        held = self._shelf(row).get(_text(row))
        if held is None:
            raise KeyError(row)
        return held

    def __setitem__(self, row: RowKey, held: dict[str, Any]) -> None:
        self._shelf(row).put(_text(row), held)
        self.own.pages.change(self._place(row))

    def __delitem__(self, row: RowKey) -> None:
        raise TypeError("rows leave with their period alone")

    def __iter__(self) -> Iterator[RowKey]:
        for place in {self._place((start, "fixed")) for start in self._starts()}:
            for text in self._shelf_at(place):
                start, mac_class = text.split(" ")
                yield int(start), cast(MacClass, mac_class)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _starts(self) -> range:
        return range(self.hours.start, self.hours.end, WINDOW_MINUTES)

    def _place(self, row: RowKey) -> StatePlace:
        # Neighbours together: a micro-batch is about few of a day's windows.
        number = row[0] // WINDOW_MINUTES * PARTS // _WINDOWS_OF_DAY % PARTS
        return self.own.place(KINDS_OF_DAY + KINDS_OF_DAY * self.hours.day(row[0]), number)

    def _shelf(self, row: RowKey) -> PageItems[dict[str, Any]]:
        return self._shelf_at(self._place(row))

    def _shelf_at(self, place: StatePlace) -> PageItems[dict[str, Any]]:
        def read(raw: Raw) -> PageItems[dict[str, Any]]:
            return PageItems(_BY_ROW.decode(raw), self._counted)

        return self.own.pages.shelf(place, read)

    def _counted(self, raw: Raw) -> dict[str, Any]:
        """By part its value, or of what takes nothing back how often each number came."""
        held, counted = _ROW.decode(raw), dict[str, Any]()
        for part in self.parts:
            if part.name in held:
                value = held[part.name]
                counted[part.name] = part.read(value) if part.is_invertible else Counter(value)
        return counted


def _devices(raw: Raw) -> PageItems[KeptDevice]:
    return PageItems(_BY_NUMBER.decode(raw), _DEVICE.decode)


def _minutes(raw: Raw) -> PageItems[KeptMinutes]:
    return PageItems(_BY_NUMBER.decode(raw), _MINUTES.decode)


def _text(row: RowKey) -> str:
    start, mac_class = row
    return f"{start} {mac_class}"
