"""The values of the merge rule: the state of a window in each layer, and the window as served.

The rule is that of the family's kind (tally/families/kind.py). With any rule, one side is chosen
per window, and all rows of the window come from it. Cassandra keeps the row that has seen the most,
by its write timestamp: the register.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tally.algebra.parts import PartList, Value

EPOCH_SHIFT = 40  # a window of 2^40 events would pass for an epoch


def register(epoch: int, seen: int) -> int:
    """The write timestamp of a row that has seen so many of its window's events.

    The higher epoch wins, then the row that has seen more, for any writer and any time of writing:
    a retry, a replay, a second driver and a zombie may all write (docs/guarantees.md). `seen`:
    the row's `events`: distinct ones, or how far a derived family's partition has been read.

    >>> register(1, 5) > register(1, 4) and register(2, 0) > register(1, 1_000_000)
    True
    """
    return (epoch << EPOCH_SHIFT) | seen


Axes = tuple[str, ...]
# Values by the name of the part.
Parts = Mapping[str, Value]
WindowSource = Literal["batch", "speed", "missing"]


@dataclass(frozen=True)
class WindowState:
    """One layer's rows of one (store, window).

    It has the register (epoch, events) and the parts by axes value. `excluded` (batch only): parts
    of events counted in `events` but not in `values`.
    """

    epoch: int
    events: int
    values: Mapping[Axes, Parts]
    excluded: Mapping[Axes, Parts] = field(default_factory=dict)


class LayerRow(Protocol):
    """One row of a window as a layer's table has it, for any reader; None is an empty column."""

    @property
    def axes(self) -> Axes:
        """Values of the family's axes."""

    @property
    def epoch(self) -> int:
        """Epoch of its definition."""

    @property
    def events(self) -> int:
        """Events that the window had when it was written."""

    @property
    def parts(self) -> Sequence[Value]:
        """Values of the family's parts, in their order."""

    @property
    def excluded(self) -> Sequence[Value]:
        """Excluded values of the family's parts; () in the speed layer."""


def window_state(parts: PartList, rows: Sequence[LayerRow]) -> WindowState:
    """One window's rows, at least one, as a state; `excluded` has only rows with some."""
    zeros = tuple([part.zero for part in parts])
    # Most windows have no exclusions, which one look at their rows shows.
    with_exclusions = [row for row in rows if row.excluded and row.excluded != zeros]
    taken = {row.axes: _by_name(parts, row.excluded) for row in with_exclusions}
    # A least waiting time of 0 is something: the zero of a minimum is None.
    excluded = {
        axes: values
        for axes, values in taken.items()
        if any(values[part.name] != part.zero for part in parts)
    }
    # If a read returns rows of two writes, the window's register is that of the richest row.
    epoch, events = max((row.epoch, row.events) for row in rows)
    values = {row.axes: _by_name(parts, row.parts) for row in rows}
    return WindowState(epoch, events, values, excluded)


def _by_name(parts: PartList, values: Sequence[Value]) -> Parts:
    named = {part.name: value for part, value in zip(parts, values, strict=True)}
    if None in values:
        # A column is empty in a row that was written before its table had the column.
        empty = {part.name: part.zero for part in parts if named[part.name] is None}
        return {**named, **empty}
    return named


@dataclass(frozen=True)
class MergedWindow:
    """One window as it is served; `values` None: neither layer can answer, {}: a true zero."""

    source: WindowSource
    events: int | None
    values: Mapping[Axes, Parts] | None


MISSING = MergedWindow("missing", None, None)


def newer_state(left: WindowState | None, right: WindowState | None) -> WindowState | None:
    """The state with the higher (epoch, events), of equal ones the left; None is its zero."""
    if left is None or right is None:
        return right if left is None else left
    # By both numbers alone: the writer of a row, and its time, say nothing about its content.
    return right if (right.epoch, right.events) > (left.epoch, left.events) else left
