"""Windows of one partition, computed from its records in order of offset.

They are a function of that prefix of the partition alone.

A record is late when an earlier record of its partition has come so far that its window was over by
more than the lateness. The counted records of a window are therefore a prefix of its records, and
always the same one, for every process and every cut of the partition into micro-batches.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from speed_layer.input.records import Ints, Records, find_runs
from speed_layer.state.window import Page, Window, decode_page, encode_page
from tally.algebra.merge import Axes
from tally.algebra.parts import Value
from tally.time.windows import WINDOW_MILLIS

# Pages of one instant: a micro-batch of few of many stores reads and writes little of the state.
PAGES = 16
NEVER = -(2**62)  # before any instant; a lateness less is still a number of 64 bits
PageKey: TypeAlias = tuple[int, int]


class WindowRow(NamedTuple):
    """One row of a window.

    start: in milliseconds since 1970; events: distinct events of the window; parts: the value of
    each part over the events with these axes.
    """

    store: str
    start: int
    axes: Axes
    events: int
    parts: tuple[Value, ...]


@dataclass
class PartitionWindows:
    """The state of one partition.

    `pages` are stored elsewhere, by (start of the window, number); `page_keys` has the existing
    keys.

    `frontier` is the latest instant of any record so far, `lateness` a span, both in milliseconds.
    Records of windows that begin before `floor` are not counted: `below_floor` of the last ones
    taken.
    """

    lateness: int
    pages: MutableMapping[PageKey, bytes]
    frontier: int = NEVER
    page_keys: set[PageKey] = field(default_factory=set)
    late: int = 0
    floor: int = NEVER
    below_floor: int = 0

    def reset(self) -> None:
        """Drop all windows and begin after every window that a record so far can belong to.

        It is for a changed computation: an open window holds values of the previous one, and only
        the identities of its records are left. The rebuild has the records.
        """
        for key in self.page_keys:
            del self.pages[key]
        self.page_keys.clear()
        # No record so far is later than the frontier: the next window will be seen whole.
        self.floor = self.frontier - self.frontier % WINDOW_MILLIS + WINDOW_MILLIS

    def take(self, records: Records) -> Iterator[WindowRow]:
        """Yield the rows of each window that the records change, one window after the other.

        Closed windows are dropped at the end.
        """
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
            page = decode_page(self.pages[key]) if key in self.page_keys else {}
            changed = [
                store
                for store, places in stores
                if page.setdefault(store, Window()).add(records, places)
            ]
            for store in changed:
                yield from _rows(store, key[0], page[store])
            # Windows that open and close within one micro-batch, as in a backlog, need no state.
            if changed and not self._has_closed(key):
                self._store_page(key, page)

    def _store_page(self, key: PageKey, page: Page) -> None:
        self.pages[key] = encode_page(page)
        self.page_keys.add(key)

    def _has_closed(self, key: PageKey) -> bool:
        return key[0] + WINDOW_MILLIS <= self.frontier - self.lateness


def _rows(store: str, start: int, window: Window) -> Iterator[WindowRow]:
    for axes, values in window.values.items():
        yield WindowRow(store, start, axes, window.events, tuple(values))


def _by_page(
    records: Records, starts: Ints, which: Ints
) -> Iterator[tuple[PageKey, list[tuple[str, Ints]]]]:
    """The places of records by page, and within a page by store, each in order of offset."""
    # hash() would not do: it differs from process to process, and a page must be found again.
    numbers = np.array(
        [crc32(name.encode()) % PAGES for name in records.names],
        np.int64,
    )
    keys = np.stack(
        (starts[which], numbers[records.stores[which]], records.stores[which]),
    )
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
