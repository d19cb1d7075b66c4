"""Wrong on purpose: events told apart by too little of (store, window, event_id)."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from typing_extensions import override

from speed_layer.state.partition_windows import PartitionWindows, WindowRow
from speed_layer.state.records import Ints, Records

Key = tuple[object, ...]


@dataclass
class PoorKey(PartitionWindows):
    """A state that passes over all records but the first of each key.

    What it knows lies in memory alone, and is gone at the next micro-batch: it writes nowhere.
    """

    known: set[Key] = field(default_factory=set)

    @abstractmethod
    def key(self, store: str, start: int, identity: bytes) -> Key:
        """By what it knows an event of a store's window."""

    @override
    def _count(self, records: Records, starts: Ints, which: Ints) -> Iterator[WindowRow]:
        first = [place for place in which.tolist() if self._is_first(records, starts, place)]
        yield from super()._count(records, starts, np.array(first, np.int64))

    def _is_first(self, records: Records, starts: Ints, place: int) -> bool:
        store = records.names[records.stores[place]]
        key = self.key(store, int(starts[place]), bytes(records.ids[place]))
        is_first = key not in self.known
        self.known.add(key)
        return is_first


class WithoutStore(PoorKey):
    """Of two stores' receipts of one number it counts one."""

    @override
    def key(self, store: str, start: int, identity: bytes) -> Key:
        """Window and identity."""
        return start, identity


class WithoutWindow(PoorKey):
    """Once counted an event counts in no other window, and who has not seen it counts it there."""

    @override
    def key(self, store: str, start: int, identity: bytes) -> Key:
        """Store and identity."""
        return store, identity
