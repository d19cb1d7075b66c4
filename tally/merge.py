"""The merge rule: what a reader sees of one window, given what each layer holds of it.

Pure functions over values; additive families only. The side is chosen once a window and all its
rows come from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Axes = tuple[str, ...]
Parts = Mapping[str, int]
Source = Literal["batch", "speed", "missing"]


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

    source: Source
    events: int | None
    values: Mapping[Axes, Parts] | None


MISSING = MergedWindow("missing", None, None)


def merge_window(
    speed: WindowState | None, batch: WindowState | None, covered: bool
) -> MergedWindow:
    """The served value of one window; the sides are never added.

    Higher epoch first, then more events, then batch. `covered` says that a published generation
    covers the window, so that no row means that nothing happened.
    """
    chosen = richer(batch, speed)
    if chosen is None:
        return MergedWindow("batch", 0, {}) if covered else MISSING
    if chosen is batch:
        return MergedWindow("batch", chosen.events, chosen.values)
    return MergedWindow("speed", chosen.events, _without_excluded(chosen, batch))


def richer(left: WindowState | None, right: WindowState | None) -> WindowState | None:
    """The state with the higher (epoch, events); None is its zero.

    Left when they are equal, for then they are the same events.
    """
    return right if _register(right) > _register(left) else left


def _register(state: WindowState | None) -> tuple[int, int]:
    return (state.epoch, state.events) if state is not None else (-1, -1)


def _without_excluded(speed: WindowState, batch: WindowState | None) -> Mapping[Axes, Parts]:
    """Speed's values less what batch knows to be excluded.

    Speed holds a superset of batch's events, so it holds those too. What batch excluded under axes
    that speed does not have (a dimension named anew in between) is subtracted there all the same:
    no total hangs on a label.
    """
    if batch is None or batch.epoch != speed.epoch or not batch.excluded:
        return speed.values
    axes = [
        *speed.values,
        *(
            one
            for one in batch.excluded
            if one not in speed.values and any(batch.excluded[one].values())
        ),
    ]
    return {one: _less(speed.values.get(one, {}), batch.excluded.get(one, {})) for one in axes}


def _less(parts: Parts, excluded: Parts) -> dict[str, int]:
    return {name: parts.get(name, 0) - excluded.get(name, 0) for name in {**parts, **excluded}}


def add_parts(left: Parts, right: Parts) -> dict[str, int]:
    """Sum of two rows' parts, name by name; an absent name is 0.

    Associative, commutative, {} is its zero.
    """
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}
