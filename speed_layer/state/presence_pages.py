"""State of the presences of a partition's stores, in pages of several stores each.

A micro-batch reads and writes the pages that its sightings concern. Of one store in one key period
they hold the standing of its devices, the minutes in which they were heard by day, and the rows of
its windows: pages of past days are not touched, unless a late sighting concerns these days.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast
from zlib import crc32

import msgspec
from msgspec import Raw

from speed_layer.state.partition_windows import PageKey
from tally.algebra.parts import Part
from tally.people.heard import NEVER, DeviceState, PresenceState
from tally.people.presence import RowKey
from tally.people.visits import UNKNOWN_HOURS, WINDOW_MINUTES, MacClass, PeriodHours

# The number of pages of stores, and of pages of one kind and day for each of these.
STORES, PARTS = 16, 16
# Entries of stores have no instant, so this is their key; their page numbers are below 0, and those
# of periods are not.
STORES_KEY = 0
NUMBER_BYTES = 16
# The minutes of the longest period (14 days, and clocks that are set back) fit into so many bits.
_LENGTH_BITS = 16
_DAY_MINUTES = 1440
# A period has pages of its devices, and for each day these kinds: the minutes, and the windows.
KINDS_PER_DAY = 2
Item = TypeVar("Item")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class KeySpan(NamedTuple):
    """A key period, first minute inclusive to last exclusive, since 1970 (UTC)."""

    start: int
    end: int

    def overlaps(self, other: "KeySpan") -> bool:
        """Whether a minute is in both: in a store whose zone has changed, or its settings."""
        return self.start < other.end and other.start < self.end

    @property
    def key(self) -> int:
        """Begin and length as one number: two may begin together after a setting changed."""
        return self.start << _LENGTH_BITS | self.end - self.start

    @property
    def days(self) -> range:
        """The numbers of its days, and one more, since clocks are set back."""
        return range((self.end - self.start) // _DAY_MINUTES + 2)


# The state stores the fields by their order: a new one may only be appended, none may move.
class StoredPeriod(msgspec.Struct, array_like=True):
    """A key period of a store without its devices and rows."""

    start: int
    end: int
    # The minute until when a presence may be joined, by the device's number in 16 bytes.
    waiting: dict[bytes, int] = {}
    # The store's opening hours in the period, by its first record: tally/people/visits.py.
    opening: str = UNKNOWN_HOURS
    # The rules by which its rows are computed, in the order of their fields.
    rules: list[int] = []


class StoredStore(msgspec.Struct, array_like=True):
    """A store: the latest minute of any of its sightings, and its key periods."""

    frontier: int = NEVER
    periods: list[StoredPeriod] = []
    # The end of the periods that are over: no new period may begin before this minute.
    closed: int = NEVER


_ENCODER = msgspec.msgpack.Encoder()
_PAGE = msgspec.msgpack.Decoder(dict[str, Raw])
_STORE = msgspec.msgpack.Decoder(StoredStore)
_EMPTY = Raw(_ENCODER.encode({}))


# A function that decodes a stored item.
ReadRaw: TypeAlias = Callable[[Raw], Item]


class PageItems(Generic[Item]):
    """The items of one store on a page, by key; each is decoded when it is first read."""

    def __init__(self, raw: Mapping[Any, Raw], read: ReadRaw[Item]) -> None:
        self._encoded, self._read = dict(raw), read
        self._decoded: dict[Any, Item] = {}

    def get(self, key: bytes | str) -> Item | None:
        """The item, or None if there is none."""
        if key not in self._decoded and key in self._encoded:
            self._decoded[key] = self._read(self._encoded[key])
        return self._decoded.get(key)

    def put(self, key: bytes | str, value: Item) -> None:
        """Set the item."""
        self._decoded[key] = value

    def __iter__(self) -> Iterator[Any]:
        """All keys, in no particular order."""
        return iter({**self._encoded, **self._decoded})

    def to_dict(self) -> dict[Any, Any]:
        """The items to store; those that were never read stay encoded."""
        return {**self._encoded, **self._decoded}


class StatePlace(NamedTuple):
    """The entry of one store on one page."""

    key: PageKey
    store: str


@dataclass
class PresencePages:
    """The pages that were read from the state, and the places that have changed."""

    encoded_pages: MutableMapping[PageKey, bytes]
    page_keys: set[PageKey]
    _pages: dict[PageKey, dict[str, Raw]] = field(default_factory=dict)
    _decoded: dict[StatePlace, StoredStore | PageItems[Any]] = field(default_factory=dict)
    _changed: set[StatePlace] = field(default_factory=set)

    def store(self, store: str) -> StoredStore:
        """The state of the store."""
        # A store without any sighting yet has no entry.
        place = _store_place(store)
        if place not in self._decoded:
            raw = self._page(place.key).get(store)
            self._decoded[place] = StoredStore() if raw is None else _STORE.decode(raw)
        return cast(StoredStore, self._decoded[place])

    def stores(self) -> set[str]:
        """All stores that have an entry."""
        keys = (key for key in self.page_keys if key[0] == STORES_KEY)
        return {store for key in keys for store in self._page(key)}

    def put_store(self, store: str, kept: StoredStore) -> None:
        """Set the state of the store."""
        self._decoded[_store_place(store)] = kept
        self._changed.add(_store_place(store))

    def items_at(self, place: StatePlace, read: ReadRaw[PageItems[Item]]) -> PageItems[Item]:
        """The items at the place."""
        if place not in self._decoded:
            page = self._page(place.key)
            self._decoded[place] = read(page.get(place.store, _EMPTY))
        return cast("PageItems[Item]", self._decoded[place])

    def mark_changed(self, place: StatePlace) -> None:
        """Mark the place as changed."""
        self._changed.add(place)

    def delete_period(self, store: str, span: KeySpan) -> None:
        """Delete the store's devices, minutes and rows of the period."""
        kinds = range(1 + KINDS_PER_DAY * len(span.days))
        numbers = (page_number(kind, store, part) for kind in kinds for part in range(PARTS))
        for place in (StatePlace((span.key, number), store) for number in numbers):
            is_there = place.key in self.page_keys and store in self._page(place.key)
            if is_there or place in self._decoded:
                self._decoded[place] = PageItems({}, bytes)
                self._changed.add(place)

    def write(self) -> None:
        """Write the changed pages to the state; an empty page is deleted."""
        for place in self._changed:
            value, page = self._decoded[place], self._page(place.key)
            if content := value if isinstance(value, StoredStore) else value.to_dict():
                page[place.store] = Raw(_ENCODER.encode(content))
            else:
                page.pop(place.store, None)
        # Each page is written once, however many of its stores have changed.
        for key in sorted({place.key for place in self._changed}):
            if page := self._page(key):
                self.encoded_pages[key] = _ENCODER.encode(page)
                self.page_keys.add(key)
            elif key in self.page_keys:
                del self.encoded_pages[key]
                self.page_keys.remove(key)

    def _page(self, key: PageKey) -> dict[str, Raw]:
        if key not in self._pages:
            is_there = key in self.page_keys
            self._pages[key] = _PAGE.decode(self.encoded_pages[key]) if is_there else {}
        return self._pages[key]


def page_number(kind: int, store: str, part: int) -> int:
    """The number of a period's page by its kind, the store's group, and one of PARTS."""
    return (kind * STORES + _store_group(store)) * PARTS + part


def _store_group(store: str) -> int:
    return crc32(store.encode()) % STORES


def _store_place(store: str) -> StatePlace:
    return StatePlace((STORES_KEY, -1 - _store_group(store)), store)


_WINDOWS_OF_DAY = 1440 // WINDOW_MINUTES


# The state stores the fields by their order: a new one may only be appended, none may move.
class StoredDevice(msgspec.Struct, array_like=True):
    """A device in the state, the days of the period on which it was heard, and visits begin."""

    mac_class: MacClass
    standing: PresenceState | None
    days: list[int]
    visit_days: list[int] = []


# The strongest signal in dBm by minute, of one day.
StoredMinutes: TypeAlias = dict[int, int]
_BY_NUMBER = msgspec.msgpack.Decoder(dict[bytes, Raw])
_BY_ROW = msgspec.msgpack.Decoder(dict[str, Raw])
_DEVICE = msgspec.msgpack.Decoder(StoredDevice)
_MINUTES = msgspec.msgpack.Decoder(StoredMinutes)
# The value of each part, or how often each number came, by part.
_ROW = msgspec.msgpack.Decoder(dict[str, Any])


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


class _PeriodMapping(MutableMapping[_Key, _Value]):
    """Something of a period by key; whatever it has leaves with the period alone."""

    def __delitem__(self, key: _Key) -> None:
        raise TypeError(f"{key!r} leaves with its period alone")

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Devices(_PeriodMapping[int, DeviceState]):
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

    def __iter__(self) -> Iterator[int]:
        for part in range(PARTS):
            yield from (int.from_bytes(number) for number in self._items(part))

    def _items(self, number: int) -> PageItems[StoredDevice]:
        return self.period.pages.items_at(
            self._place(number), lambda raw: PageItems(_BY_NUMBER.decode(raw), _DEVICE.decode)
        )

    def _place(self, number: int) -> StatePlace:
        return self.period.place(0, number % PARTS)


class _DevicePages(_PeriodMapping[int, StoredMinutes]):
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

    def __iter__(self) -> Iterator[int]:
        return iter(self._days)

    def __len__(self) -> int:
        return len(self._days)

    def _place(self, day: int) -> StatePlace:
        return self._period.place(1 + KINDS_PER_DAY * day, self._number % PARTS)

    def _items(self, day: int) -> PageItems[StoredMinutes]:
        return self._period.pages.items_at(
            self._place(day), lambda raw: PageItems(_BY_NUMBER.decode(raw), _MINUTES.decode)
        )


@dataclass(frozen=True)
class PeriodRows(_PeriodMapping[RowKey, dict[str, Any]]):
    """The rows of the windows of one store in one key period, read and written by pages."""

    period: PeriodPages
    parts: Sequence[Part]
    hours: PeriodHours

    def __getitem__(self, row: RowKey) -> dict[str, Any]:
        held = self._items(row).get(f"{row[0]} {row[1]}")
        if held is None:
            raise KeyError(row)
        return held

    def __setitem__(self, row: RowKey, held: dict[str, Any]) -> None:
        self._items(row).put(f"{row[0]} {row[1]}", held)
        self.period.pages.mark_changed(self._place(row))

    def __iter__(self) -> Iterator[RowKey]:
        starts = range(self.hours.start, self.hours.end, WINDOW_MINUTES)
        for place in {self._place((start, "fixed")) for start in starts}:
            for text in self._items_at(place):
                start, mac_class = text.split(" ")
                yield int(start), cast(MacClass, mac_class)

    def _place(self, row: RowKey) -> StatePlace:
        # Neighbouring windows share a page: a micro-batch concerns few windows of a day.
        number = row[0] // WINDOW_MINUTES * PARTS // _WINDOWS_OF_DAY % PARTS
        return self.period.place(KINDS_PER_DAY + KINDS_PER_DAY * self.hours.day(row[0]), number)

    def _items(self, row: RowKey) -> PageItems[dict[str, Any]]:
        return self._items_at(self._place(row))

    def _items_at(self, place: StatePlace) -> PageItems[dict[str, Any]]:
        return self.period.pages.items_at(
            place, lambda raw: PageItems(_BY_ROW.decode(raw), self._read_row)
        )

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
