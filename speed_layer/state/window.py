"""State of an open window between two micro-batches.

It has the identities of the counted events, and the values of their parts.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from speed_layer.input.records import ID_BYTES, ID_TYPE, Ints, Records
from tally.algebra.merge import Axes
from tally.algebra.parts import Part, Value


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

        `which` are places in order of offset. The first of two records with one identity counts,
        even if the second differs.
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


def decode_page(value: bytes) -> Page:
    """Decode the page from a value of the state."""
    return _DECODER.decode(value)


def encode_page(page: Page) -> bytes:
    """Encode the page as a value of the state."""
    return _ENCODER.encode(page)


def _add_values(
    parts: Sequence[Part],
    first: Sequence[Value],
    second: Sequence[Value],
) -> list[Value]:
    by_part = zip(parts, first, second, strict=True)
    return [part.plus(*values) for part, *values in by_part]
