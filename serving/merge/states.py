"""Rows of a table as window states."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from tally.families import TOTAL_DIM, Family
from tally.merge import Axes, Parts, WindowState

# A counter table has no epoch column: the tests' wrong sink knows only the first definition.
COUNTER_EPOCH = 1


def states_of(family: Family, rows: Iterable[tuple[Any, ...]]) -> dict[datetime, WindowState]:
    """Window start (UTC) to its state. Rows: window_start, axes, dim, events, parts, [epoch], [excluded parts]."""
    by_window: dict[datetime, list[tuple[Any, ...]]] = {}
    dim = 1 + len(family.axes)
    for row in rows:
        if row[dim] == TOTAL_DIM:
            by_window.setdefault(row[0], []).append(row)
    return {start.replace(tzinfo=UTC): _state(family, found) for start, found in by_window.items()}


def _state(family: Family, rows: list[tuple[Any, ...]]) -> WindowState:
    """One row for each axes value; all carry the window's own events and epoch."""
    parts = 3 + len(family.axes)
    epoch = parts + len(family.parts)
    values: dict[Axes, Parts] = {_axes(family, row): _named(family, row[parts:epoch]) for row in rows}
    excluded: dict[Axes, Parts] = {_axes(family, row): _named(family, row[epoch + 1 :]) for row in rows if any(row[epoch + 1 :])}
    first = rows[0]
    return WindowState(first[epoch] if len(first) > epoch else COUNTER_EPOCH, max(row[parts - 1] for row in rows), values, excluded)


def _axes(family: Family, row: tuple[Any, ...]) -> Axes:
    return row[1 : 1 + len(family.axes)]


def _named(family: Family, values: tuple[Any, ...]) -> dict[str, int]:
    return {name: value or 0 for name, value in zip(family.parts, values, strict=True)}
