"""Windows of one partition, a function of the prefix of its records in order of offset alone.

A record is late when an earlier record of its partition has come so far that its window was over by
more than the lateness. The counted records of a window are therefore a prefix of its records, and
always the same one, for every process and every cut of the partition into micro-batches.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from speed_layer.state.records import ID_BYTES, ID_TYPE, Ints, Records, find_runs
from tally.algebra.merge import Axes
from tally.algebra.parts import Part, Value
from tally.time.windows import WINDOW_MILLIS


# The state stores the fields by their order: a new one may only be appended, none may move.
class Window(msgspec.Struct, array_like=True):
    """One window of one store.

    ids: identities of its events, 16 bytes each, sorted; values: the value of each part, by axes.
    """

    ids: bytes = b""
    values: dict[Axes, list[Value]] = {}  # each window its own: msgspec copies it

    @property
    def events(self) -> int:
        """Distinct events, before exclusions and conflicts: the register of its rows."""
        return len(self.ids) // ID_BYTES

    def add(self, records: Records, which: Ints) -> bool:
        """Count the records that are new to the window; return whether there was any.

        `which` are places in order of offset. The first record of an identity counts.
        """
        if not self.ids and len(which) == 1:
            # The common case in a small shop: there is nothing to compare.
            self.ids, axes, parts = records.single(int(which[0]))
            self.values[axes] = parts
            return True
        new = which[self._take_new(records.ids[which])]
        for axes, parts in records.values(new):
            before = self.values.get(axes)
            self.values[axes] = (
                _add_values(records.family_parts, before, parts) if before else parts
            )
        return len(new) > 0

    def _take_new(self, ids: npt.NDArray[np.bytes_]) -> Ints:
        """Add unknown identities to the window; return their places, each identity once."""
        # The first place of each identity: the first by offset of several copies.
        distinct, first = np.unique(ids, return_index=True)
        held = np.frombuffer(self.ids, dtype=ID_TYPE)
        places = np.searchsorted(held, distinct)
        if len(held):
            # An identity after all held ones has a place beyond the last.
            is_new = held[np.minimum(places, len(held) - 1)] != distinct
            distinct, first, places = distinct[is_new], first[is_new], places[is_new]
        if len(distinct):
            self.ids = np.insert(held, places, distinct).tobytes()
        return first


# The windows of some stores that begin at one instant, by store: one value of the state.
Page: TypeAlias = dict[str, Window]
_DECODER, _ENCODER = msgspec.msgpack.Decoder(Page), msgspec.msgpack.Encoder()


def _add_values(
    parts: Sequence[Part], first: Sequence[Value], second: Sequence[Value]
) -> list[Value]:
    by_part = zip(parts, first, second, strict=True)
    return [part.plus(*values) for part, *values in by_part]


# Pages of one instant: a micro-batch of few of many stores reads and writes little of the state.
PAGES = 16
NEVER = -(2**62)  # before any instant; a lateness less is still a number of 64 bits
PageKey: TypeAlias = tuple[int, int]


class WindowRow(NamedTuple):
    """One row of a window: its start in milliseconds since 1970, and its number of events."""

    store: str
    start: int
    axes: Axes
    events: int
    # The value of each part over the events with these axes.
    parts: tuple[Value, ...]


@dataclass
class PagedState(ABC):
    """The state of one partition, whose content lies in pages.

    `pages` are stored elsewhere; `page_keys` has the existing keys. `frontier` is the latest
    instant of any record so far, `lateness` how long after its end a window, or a key period, takes
    records, both in milliseconds. Of the last records taken `late` came after that, and
    `below_floor` belong to windows or periods that begin before `floor`.
    """

    lateness: int
    pages: MutableMapping[PageKey, bytes]
    frontier: int = NEVER
    page_keys: set[PageKey] = field(default_factory=set)
    late: int = 0
    floor: int = NEVER
    below_floor: int = 0

    def reset(self) -> None:
        """Drop all pages and begin after everything that a record so far can belong to."""
        # For a changed computation: the pages hold values of the previous one, and of the records
        # only their identities. The rebuild has the records.
        for key in self.page_keys:
            del self.pages[key]
        self.page_keys.clear()
        self.floor = self.next_start()

    @abstractmethod
    def next_start(self) -> int:
        """The first instant at which a window or period that is seen whole can begin."""


class PartitionWindows(PagedState):
    """The state of one partition in windows, with pages by (start of the window, number)."""

    def next_start(self) -> int:
        """The start of the window after the frontier: no record so far is later than that."""
        return self.frontier - self.frontier % WINDOW_MILLIS + WINDOW_MILLIS

    def take(self, records: Records) -> Iterator[WindowRow]:
        """Yield the rows of each window that the records change, one window after the other."""
        starts = records.at - records.at % WINDOW_MILLIS
        # The partition's progress before each record, by all records since the first: the cuts
        # between micro-batches make no difference.
        reached = np.maximum.accumulate(np.concatenate(([self.frontier], records.at)))
        # The window's end decides and not the event itself: in an open window an event counts
        # however old it is, and once one is dropped all later ones of its window are.
        on_time = starts + WINDOW_MILLIS > reached[:-1] - self.lateness
        whole = starts >= self.floor
        self.frontier = int(reached[-1])
        self.below_floor = int((~whole).sum())
        self.late = int((~on_time & whole).sum())
        yield from self._count(records, starts, np.flatnonzero(on_time & whole))
        # Dropped only now: a window closed by this micro-batch still takes the records before that.
        for key in [key for key in self.page_keys if self._has_closed(key)]:
            del self.pages[key]
            self.page_keys.remove(key)

    def _count(self, records: Records, starts: Ints, which: Ints) -> Iterator[WindowRow]:
        for key, stores in _by_page(records, starts, which):
            page = _DECODER.decode(self.pages[key]) if key in self.page_keys else {}
            changed = [
                store
                for store, places in stores
                if page.setdefault(store, Window()).add(records, places)
            ]
            for store in changed:
                window = page[store]
                for axes, values in window.values.items():
                    yield WindowRow(store, key[0], axes, window.events, tuple(values))
            # Windows that open and close within one micro-batch, as in a backlog, need no state.
            if changed and not self._has_closed(key):
                self.pages[key] = _ENCODER.encode(page)
                self.page_keys.add(key)

    def _has_closed(self, key: PageKey) -> bool:
        return key[0] + WINDOW_MILLIS <= self.frontier - self.lateness


def _by_page(
    records: Records, starts: Ints, which: Ints
) -> Iterator[tuple[PageKey, list[tuple[str, Ints]]]]:
    """The places of records by page, and within a page by store, each in order of offset."""
    # hash() would not do: it differs from process to process, and a page must be found again.
    numbers = [crc32(name.encode()) % PAGES for name in records.names]
    places = records.stores[which]
    pages = np.array(numbers, np.int64)[places]
    keys = np.stack((starts[which], pages, places))
    # The last key sorts first; ties keep the order of the offsets.
    order = np.lexsort(keys[::-1])
    keys, which = keys[:, order], which[order]
    current: PageKey | None = None
    stores: list[tuple[str, Ints]] = []
    for begin, end in find_runs(keys):
        start, number, store = keys[:, begin].tolist()
        if current is not None and current != (start, number):
            yield current, stores
            stores = []
        current = (start, number)
        stores.append((records.names[store], which[begin:end]))
    if current is not None:
        yield current, stores
