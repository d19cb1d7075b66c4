"""State of the presences of a partition's stores, in pages of several stores each.

A micro-batch reads and writes the pages that its sightings concern.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast
from zlib import crc32

import msgspec
from msgspec import Raw

from speed_layer.state.partition_windows import PageKey
from tally.people.heard import NEVER
from tally.people.visits import UNKNOWN_HOURS

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


class KeySpan(NamedTuple):
    """A key period, first minute inclusive to last exclusive, since 1970 (UTC)."""

    start: int
    end: int

    def overlaps(self, other: "KeySpan") -> bool:
        """Whether a minute is in both: in a store whose zone has changed, or its settings."""
        return self.start < other.end and other.start < self.end

    @property
    def key(self) -> int:
        """Begin and length as one number.

        The begin alone does not suffice: two periods may begin together where a setting has
        changed.
        """
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
    """A store: the latest minute of any of its sightings, and its key periods.

    `closed` is the end of the periods that are over: no new period may begin before this minute.
    """

    frontier: int = NEVER
    periods: list[StoredPeriod] = []
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


# The decoded content of a place.
OpenItems: TypeAlias = StoredStore | PageItems[Any]


@dataclass
class PresencePages:
    """The pages that were read from the state, and the places that have changed."""

    encoded_pages: MutableMapping[PageKey, bytes]
    page_keys: set[PageKey]
    _pages: dict[PageKey, dict[str, Raw]] = field(default_factory=dict)
    _decoded: dict[StatePlace, OpenItems] = field(default_factory=dict)
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
        self.mark_changed(_store_place(store))

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
                self.mark_changed(place)

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
