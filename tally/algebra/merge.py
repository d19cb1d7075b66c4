"""What each layer holds of a window, and what a reader sees of it: the values of the merge rule.

The rule is the family's kind's (tally/kinds). Whatever it is, the side is chosen once a window and
all its rows come from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tally.algebra.parts import Value
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
