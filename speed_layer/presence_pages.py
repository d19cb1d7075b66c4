"""What the state of a partition holds of its stores' presences, in pages of several stores each.

A micro-batch reads and writes the pages that its sightings are about.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast
from zlib import crc32

import msgspec
from msgspec import Raw

from speed_layer.prefix import PageKey
from tally.heard import NEVER
from tally.opening import UNKNOWN

# Pages of stores; and of each of these, pages of one kind and day.
STORES, PARTS = 16, 16
# What is kept of the stores has no instant of its own; its numbers are below 0, and those of
# periods are not.
OF_STORES = 0
NUMBER_BYTES = 16
# Minutes of the longest period (14 days, and clocks that are set back) fit into so many.
_LENGTH_BITS = 16
_DAY_MINUTES = 1440
# Kinds of pages of a period: its devices, and of each of its days the minutes, and the windows.
KINDS_OF_DAY = 2
Kept = TypeVar("Kept")


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

    @property
    def days(self) -> range:
        """Its days by number, and one more, for clocks are set back."""
        return range((self.end - self.start) // _DAY_MINUTES + 2)


# Kept in the state by the order of their fields: one may come behind them, none may move.
class KeptPeriod(msgspec.Struct, array_like=True):
    """A key period of a store without its devices and rows."""

    start: int
    end: int
    # Number of a device in 16 bytes, and until when a presence of it may be joined.
    waiting: dict[bytes, int] = {}
    # When its store is open in it, by its first record: tally/opening.py.
    opening: str = UNKNOWN
    # The rules that its rows are by, in the order of their fields.
    rules: list[int] = []


class KeptStore(msgspec.Struct, array_like=True):
    """A store: the latest minute of any of its sightings, and its key periods.

    `closed` is the minute before which none may begin that is not there: one that is over reached
    up to it.
    """

    frontier: int = NEVER
    periods: list[KeptPeriod] = []
    closed: int = NEVER


_ENCODER = msgspec.msgpack.Encoder()
_PAGE = msgspec.msgpack.Decoder(dict[str, Raw])
_STORE = msgspec.msgpack.Decoder(KeptStore)
_EMPTY = Raw(_ENCODER.encode({}))


# What is kept, by its bytes.
ReadRaw: TypeAlias = Callable[[Raw], Kept]


class PageItems(Generic[Kept]):
    """What a page holds of one store, by key; read one by one, as they are asked for."""

    def __init__(self, raw: Mapping[Any, Raw], read: ReadRaw[Kept]) -> None:
        self._raw, self._read = dict(raw), read
        self._open: dict[Any, Kept] = {}

    def get(self, key: bytes | str) -> Kept | None:
        """None where there is nothing."""
        if key not in self._open and key in self._raw:
            self._open[key] = self._read(self._raw[key])
        return self._open.get(key)

    def put(self, key: bytes | str, value: Kept) -> None:
        """From now on it is this."""
        self._open[key] = value

    def __iter__(self) -> Iterator[Any]:
        """All keys, in no order."""
        return iter({**self._raw, **self._open})

    def told(self) -> dict[Any, Any]:
        """As it is kept: what nobody has asked for as it was."""
        return {**self._raw, **self._open}


class StatePlace(NamedTuple):
    """What one page holds of one store."""

    key: PageKey
    store: str


# What there is at a place.
OpenItems: TypeAlias = KeptStore | PageItems[Any]


@dataclass
class PresencePages:
    """What was read of the state, and what of it has changed."""

    kept: MutableMapping[PageKey, bytes]
    held: set[PageKey]
    _pages: dict[PageKey, dict[str, Raw]] = field(default_factory=dict)
    _open: dict[StatePlace, OpenItems] = field(default_factory=dict)
    _changed: set[StatePlace] = field(default_factory=set)

    def store(self, store: str) -> KeptStore:
        """What is kept of the store."""
        # A store that nobody has heard yet has never been anywhere.
        place = _place_of(store)
        if place not in self._open:
            raw = self._page(place.key).get(store)
            self._open[place] = KeptStore() if raw is None else _STORE.decode(raw)
        return cast(KeptStore, self._open[place])

    def stores(self) -> set[str]:
        """All of which something is kept."""
        keys = (key for key in self.held if key[0] == OF_STORES)
        return {store for key in keys for store in self._page(key)}

    def keep(self, store: str, kept: KeptStore) -> None:
        """The store is this."""
        self._open[_place_of(store)] = kept
        self.change(_place_of(store))

    def shelf(self, place: StatePlace, read: ReadRaw[PageItems[Kept]]) -> PageItems[Kept]:
        """What is kept at the place."""
        if place not in self._open:
            page = self._page(place.key)
            self._open[place] = read(page.get(place.store, _EMPTY))
        return cast("PageItems[Kept]", self._open[place])

    def change(self, place: StatePlace) -> None:
        """What is kept at the place has changed."""
        self._changed.add(place)

    def forget(self, store: str, span: KeySpan) -> None:
        """Nothing of the store's devices, minutes and rows of the period is kept any more."""
        kinds = range(1 + KINDS_OF_DAY * len(span.days))
        numbers = (page_number(kind, store, part) for kind in kinds for part in range(PARTS))
        for place in (StatePlace((span.key, number), store) for number in numbers):
            is_there = place.key in self.held and store in self._page(place.key)
            if is_there or place in self._open:
                self._open[place] = PageItems({}, bytes)
                self.change(place)

    def write(self) -> None:
        """What has changed is kept; a page without anything on it is none."""
        for place in self._changed:
            value, page = self._open[place], self._page(place.key)
            if told := value if isinstance(value, KeptStore) else value.told():
                page[place.store] = Raw(_ENCODER.encode(told))
            else:
                page.pop(place.store, None)
        # Each page once, however many of its stores have changed.
        for key in sorted({place.key for place in self._changed}):
            if page := self._page(key):
                self.kept[key] = _ENCODER.encode(page)
                self.held.add(key)
            elif key in self.held:
                del self.kept[key]
                self.held.remove(key)

    def _page(self, key: PageKey) -> dict[str, Raw]:
        if key not in self._pages:
            is_there = key in self.held
            self._pages[key] = _PAGE.decode(self.kept[key]) if is_there else {}
        return self._pages[key]


def page_number(kind: int, store: str, part: int) -> int:
    """The number of a page of a period: of a kind, the store's, one of PARTS."""
    return (kind * STORES + _group_of(store)) * PARTS + part


def _group_of(store: str) -> int:
    return crc32(store.encode()) % STORES


def _place_of(store: str) -> StatePlace:
    return StatePlace((OF_STORES, -1 - _group_of(store)), store)
