"""What each layer holds of a window, and what a reader sees of it: the values of the merge rule.

The rule is the family's kind's (tally/kinds). Whatever it is, the side is chosen once a window and
all its rows come from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tally.algebra.parts import Part, Value
from tally.algebra.register import register

Axes = tuple[str, ...]
# Values by the name of the part.
Parts = Mapping[str, Value]
Believed = Literal["batch", "speed", "missing"]


@dataclass(frozen=True)
class WindowState:
    """One layer's rows of one (store, window).

    The register (epoch, events) and the parts by axes value. `excluded` (batch only): parts of
    events counted in `events` but not in `values`.
    """

    epoch: int
    events: int
    values: Mapping[Axes, Parts]
    excluded: Mapping[Axes, Parts] = field(default_factory=dict)


class LayerRow(Protocol):
    """One row of a window as a layer's table has it, whoever reads it; None is an empty column."""

    @property
    def axes(self) -> Axes:
        """Values of the family's axes."""

    @property
    def epoch(self) -> int:
        """Epoch of the definition that it was computed by."""

    @property
    def events(self) -> int:
        """Events that the window had when it was written."""

    @property
    def parts(self) -> Sequence[Value]:
        """Values of the family's parts, in their order."""

    @property
    def excluded(self) -> Sequence[Value]:
        """What of them was excluded; () in the speed layer."""


def window_state(parts: Sequence[Part], rows: Sequence[LayerRow]) -> WindowState:
    """The rows of one window, at least one, as one state; `parts` are those of the family.

    `excluded` has only rows of which something was.
    """
    zeros = tuple([part.zero for part in parts])
    # Of most windows nothing was: that is told by one look at their rows.
    told = [row for row in rows if row.excluded and row.excluded != zeros]
    taken = {row.axes: _named(parts, row.excluded) for row in told}
    # A read that met rows of two writes shows the window's register as the richest row has it.
    epoch, events = max((row.epoch, row.events) for row in rows)
    return WindowState(
        epoch,
        events,
        values={row.axes: _named(parts, row.parts) for row in rows},
        excluded={axes: some for axes, some in taken.items() if _is_something(parts, some)},
    )


def _is_something(parts: Sequence[Part], values: Parts) -> bool:
    # A least waiting time of 0 is something: the zero of a minimum is None.
    return any(values[part.name] != part.zero for part in parts)


def _named(parts: Sequence[Part], values: Sequence[Value]) -> Parts:
    named = {part.name: value for part, value in zip(parts, values, strict=True)}
    if None in values:
        # A column is empty in a row that was written before its table had it.
        empty = {part.name: part.zero for part in parts if named[part.name] is None}
        return {**named, **empty}
    return named


@dataclass(frozen=True)
class MergedWindow:
    """What is served of one window.

    `values` is None when neither layer can answer; {} is a true zero.
    """

    source: Believed
    events: int | None
    values: Mapping[Axes, Parts] | None


MISSING = MergedWindow("missing", None, None)


def newer_state(left: WindowState | None, right: WindowState | None) -> WindowState | None:
    """The state with the higher (epoch, events); None is its zero.

    Left when they are equal, for then they are the same events.
    """
    # By both numbers alone: whoever wrote a row, and when, says nothing of what it holds.
    return right if _register(right) > _register(left) else left


def _register(state: WindowState | None) -> int:
    return register(state.epoch, state.events) if state is not None else -1
