"""The values that the serving tables hold."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple, TypeAlias

from tally.algebra.merge import Axes
from tally.algebra.parts import Value
from tally.families.family import TOTAL_DIM, Family
from tally.families.generation import AnsweredSpan
from tally.time.instants import assume_utc

# First and last UTC day, both inclusive.
DayRange: TypeAlias = tuple[date, date]
# By UTC day and generation.
AnsweredSpans: TypeAlias = Mapping[tuple[date, int], AnsweredSpan]


class ViewRow(NamedTuple):
    """One row of a view with the window's totals; parts are in the order of the family.

    `excluded` is () in the speed layer.
    """

    window_start: datetime
    axes: Axes
    epoch: int
    events: int
    parts: tuple[Value, ...]
    excluded: tuple[Value, ...] = ()


class Activity(NamedTuple):
    """First and last UTC day on which a store had events in any family."""

    store_id: str
    first_day: date
    last_day: date


class TillFinding(NamedTuple):
    """A till of the asked store, and how many of its records of a day are conflicts.

    `accepted` is the number of conflicts that an operator has accepted.
    """

    day: date
    till_id: str
    records: int
    conflicts: int
    accepted: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the day is not final because of it."""
        return self.conflicts > self.accepted


def view_rows(family: Family, rows: Iterable[tuple[Any, ...]]) -> list[ViewRow]:
    """The total rows (dim '*'), columns by position as in statements.py."""
    dim = 1 + len(family.axes)
    first, last = dim + 3, dim + 3 + len(family.parts)
    return [
        ViewRow(
            assume_utc(row[0]),
            tuple(row[1:dim]),
            row[last],
            row[first - 1],
            family.from_columns(row[first:last]),
            # Speed rows have none.
            family.from_columns(row[last + 1 :]) if len(row) > last + 1 else (),
        )
        for row in rows
        if row[dim] == TOTAL_DIM
    ]
