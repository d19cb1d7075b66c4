"""What is kept of an open window between two micro-batches.

Which events it has counted, and what their parts come to.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from speed_layer.records import ID_BYTES, ID_TYPE, Ints, Records
from tally.algebra.merge import Axes
from tally.algebra.parts import Part, Value


# The order of the fields is the form in which the state keeps them: one may come behind them, none
# may move.
class Window(msgspec.Struct, array_like=True):
    """One window of one store.

    Identities of its events, 16 bytes each, sorted; by axes the value of each part.
    """

    ids: bytes = b""
    values: dict[Axes, list[Value]] = {}  # each window its own: msgspec copies it

    @property
    def events(self) -> int:
        """Distinct events, before exclusions and conflicts: the register of its rows."""
        return len(self.ids) // ID_BYTES

    def add(self, records: Records, which: Ints) -> bool:
        """Whether any of the records was new to the window; those that were are counted.

        `which` are places in order of offset. Of two records of one identity the first counts,
        whatever the second says.
        """
        if not self.ids and len(which) == 1:
            # Most windows of a small shop: nothing to be compared.
            self.ids, axes, parts = records.single(int(which[0]))
            self.values[axes] = parts
            return True
        new = which[self._first_seen(records.ids[which])]
        for axes, parts in records.values(new):
            before = self.values.get(axes)
            self.values[axes] = _joined(records.of, before, parts) if before else parts
        return len(new) > 0

    def _first_seen(self, ids: npt.NDArray[np.bytes_]) -> Ints:
        """Places of the identities that the window did not know, each once.

        They are known from now on.
        """
        # The first place of each: of several copies here the first by offset.
        distinct, first = np.unique(ids, return_index=True)
        held = np.frombuffer(self.ids, dtype=ID_TYPE)
        places = np.searchsorted(held, distinct)
        if len(held):
            # What belongs behind all that is held has a place beyond the last.
            is_new = held[np.minimum(places, len(held) - 1)] != distinct
            distinct, first, places = distinct[is_new], first[is_new], places[is_new]
        if len(distinct):
            self.ids = np.insert(held, places, distinct).tobytes()
        return first


# The windows of some stores that begin at one instant, by store: what is read and written as one
# value of the state.
Page: TypeAlias = dict[str, Window]
_DECODER, _ENCODER = msgspec.msgpack.Decoder(Page), msgspec.msgpack.Encoder()


def page_of(value: bytes) -> Page:
    """The page that was kept as this value."""
    return _DECODER.decode(value)


def value_of(page: Page) -> bytes:
    """How a page is kept."""
    return _ENCODER.encode(page)


def _joined(
    of: Sequence[Part],
    one: Sequence[Value],
    other: Sequence[Value],
) -> list[Value]:
    by_part = zip(of, one, other, strict=True)
    return [part.plus(*values) for part, *values in by_part]
