"""What the state of a partition holds of its stores' presences, in pages: of the stores, and of
their devices by key period."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from speed_layer.prefix import PageKey
from tally.opening import UNKNOWN
from tally.presence import NEVER, HeardDevice
from tally.visit_parts import MacClass

# Pages of stores; and of each of these, pages of its devices.
STORES, DEVICES = 16, 16
# What is kept of the stores has no instant of its own; its numbers are below 0, and those of
# devices are not.
OF_STORES = 0
NUMBER_BYTES = 16
# Minutes of the longest period (14 days) fit into so many.
_LENGTH_BITS = 16


class KeySpan(NamedTuple):
    """A key period, first minute inclusive to last exclusive, since 1970 (UTC)."""

    start: int
    end: int

    def overlaps(self, other: "KeySpan") -> bool:
        """Whether a minute is in both: in a store whose zone has changed, or its settings."""
        return self.start < other.end and other.start < self.end

    @property
    def key(self) -> int:
        """Begin and length as one number: two periods may begin together where a setting has
        changed."""
        return self.start << _LENGTH_BITS | self.end - self.start


# Kept in the state by the order of their fields: one may come behind them, none may move.
class KeptRow(msgspec.Struct, array_like=True):
    """A window's row of a class of addresses: by part its value, or how often each number came."""

    start: int
    mac_class: MacClass
    held: dict[str, Any]


class KeptPeriod(msgspec.Struct, array_like=True):
    """A key period of a store without its devices."""

    start: int
    end: int
    rows: list[KeptRow]
    # Number of a device in 16 bytes, and until when a presence of it may be joined.
    waiting: dict[bytes, int]
    # When its store is open in it, by its first record: tally/opening.py.
    opening: str = UNKNOWN


class KeptStore(msgspec.Struct, array_like=True):
    """A store: the latest minute of any of its sightings, and its key periods.

    `closed` is the minute before which none may begin that is not there: one that is over reached
    up to it.
    """

    frontier: int = NEVER
    periods: list[KeptPeriod] = []
    closed: int = NEVER


class KeptDevice(msgspec.Struct, array_like=True):
    """A device: class of its address, minute to strongest signal."""

    mac_class: MacClass
    minutes: dict[int, int]


StoresPage: TypeAlias = dict[str, KeptStore]
# By store, and number of the device in 16 bytes.
DevicesPage: TypeAlias = dict[str, dict[bytes, KeptDevice]]
_ENCODER = msgspec.msgpack.Encoder()
_STORES = msgspec.msgpack.Decoder(StoresPage)
_DEVICES = msgspec.msgpack.Decoder(DevicesPage)


class Devices(MutableMapping[int, HeardDevice]):
    """The devices of one store in one key period, read and written by pages."""

    def __init__(self, pages: "PresencePages", store: str, span: KeySpan) -> None:
        self._pages, self._store, self._span = pages, store, span

    def __getitem__(self, number: int) -> HeardDevice:
        kept = self._of(number)[number.to_bytes(NUMBER_BYTES)]
        return HeardDevice(kept.mac_class, kept.minutes)

    def __setitem__(self, number: int, device: HeardDevice) -> None:
        kept = KeptDevice(device.mac_class, device.minutes)
        self._of(number)[number.to_bytes(NUMBER_BYTES)] = kept
        self._pages.changed.add(self._key(number))

    def __delitem__(self, number: int) -> None:
        raise TypeError("devices leave with their period alone")

    def __iter__(self) -> Iterator[int]:
        raise TypeError("nobody needs them all")

    def __len__(self) -> int:
        raise TypeError("nobody counts them")

    def _of(self, number: int) -> dict[bytes, KeptDevice]:
        return self._pages.devices(self._key(number)).setdefault(self._store, {})

    def _key(self, number: int) -> PageKey:
        # A hash is evenly spread: any bits of it are.
        return self._span.key, _group_of(self._store) * DEVICES + number % DEVICES


@dataclass
class PresencePages:
    """What was read of the state, and what of it has changed."""

    kept: MutableMapping[PageKey, bytes]
    held: set[PageKey]
    changed: set[PageKey] = field(default_factory=set)
    _stores: dict[PageKey, StoresPage] = field(default_factory=dict)
    _devices: dict[PageKey, DevicesPage] = field(default_factory=dict)

    def store(self, store: str) -> KeptStore:
        """What is kept of the store; from now on that it is there."""
        return self._stores_page(store).setdefault(store, KeptStore())

    def keep(self, store: str, kept: KeptStore) -> None:
        """The store is this."""
        self._stores_page(store)[store] = kept
        self.changed.add(_key_of(store))

    def devices(self, key: PageKey) -> DevicesPage:
        """A page of devices; empty where there is none."""
        if key not in self._devices:
            held = _DEVICES.decode(self.kept[key]) if key in self.held else {}
            self._devices[key] = held
        return self._devices[key]

    def forget(self, store: str, span: KeySpan) -> None:
        """Nothing of the store's devices of the period is kept any more."""
        first = _group_of(store) * DEVICES
        for number in range(first, first + DEVICES):
            key = span.key, number
            is_there = key in self.held or key in self._devices
            if is_there and store in (page := self.devices(key)):
                del page[store]
                self.changed.add(key)

    def write(self) -> None:
        """What has changed is kept; a page without anything on it is none."""
        for key in sorted(self.changed):
            page: Mapping[str, Any]
            page = self._stores[key] if key[1] < 0 else self._devices[key]
            if page:
                self.kept[key] = _ENCODER.encode(page)
                self.held.add(key)
            elif key in self.held:
                del self.kept[key]
                self.held.remove(key)

    def _stores_page(self, store: str) -> StoresPage:
        key = _key_of(store)
        if key not in self._stores:
            held = _STORES.decode(self.kept[key]) if key in self.held else {}
            self._stores[key] = held
        return self._stores[key]


def _group_of(store: str) -> int:
    return crc32(store.encode()) % STORES


def _key_of(store: str) -> PageKey:
    return OF_STORES, -1 - _group_of(store)
