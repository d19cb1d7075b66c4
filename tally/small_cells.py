"""Cells of few people: which counts tell about people, and how atoms join until they tell of none.

The rule and its proof are in docs/adr/018-small-cells.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

_Atom = TypeVar("_Atom")

# Below it a hidden cell has hardly another number to be: of two one would be told as 1.
LEAST = 5


def _is_off_or_enough(value: int) -> int:
    if 0 < value < LEAST:
        raise ValueError(f"is 0 (off), or {LEAST} at least: fewer hides nothing")
    return value


SmallestCell = Annotated[
    int,
    Field(
        ge=0,
        description=(
            "devices below which API and pages withhold a number of WiFi, and what it could be"
            " reckoned from; 10 is usual, 0 withholds nothing"
        ),
    ),
    AfterValidator(_is_off_or_enough),
]


@dataclass(frozen=True)
class Census:
    """What of a reading's parts counts people.

    `tables`: by name the counts that are never told small, the first of them a sum. `tabled`: of
    which table a part is, that is told wherever its table is. `shares`: parts that count some of a
    table's people, told of whole days alone.
    """

    tables: Mapping[str, tuple[str, ...]]
    tabled: Mapping[str, str]
    shares: Mapping[str, str]


# By reading: its rows are of people's devices. What is named nowhere here is never told.
CENSUSES: Mapping[str, Census] = {
    "presence": Census(
        # Twelve visits of three phones are three people's.
        {"visits": ("visits", "visitors"), "passes": ("passes",)},
        {
            "visits": "visits",
            "stay_seconds": "visits",
            "stay_minutes": "visits",
            "interval_seconds": "visits",
            "passes": "passes",
        },
        # Different devices too: what visits have more than devices are those who came back.
        {"bounces": "visits", "returns": "visits", "visitors": "visits"},
    )
}


def is_small(count: int, smallest: int) -> bool:
    """Whether the count is of somebody, and of fewer than `smallest`.

    >>> [is_small(count, 10) for count in (0, 1, 9, 10)]
    [False, True, True, False]
    """
    return 0 < count < smallest


def runs(
    atoms: Sequence[_Atom],
    plus: Callable[[_Atom, _Atom], _Atom],
    is_safe: Callable[[_Atom], bool],
) -> list[list[_Atom]]:
    """The atoms in their order, as the shortest runs whose sum is safe, from the left.

    What is left at the end joins the run before it, until that is safe; nothing is safe of atoms
    that are not so together.

    >>> from operator import add
    >>> runs([0, 3, 0, 9, 12, 2, 0], add, lambda count: not is_small(count, 10))
    [[0], [3, 0, 9], [12, 2, 0]]
    """
    found: list[tuple[_Atom, list[_Atom]]] = []
    for atom in atoms:
        if found and not is_safe(found[-1][0]):
            total, run = found.pop()
            found.append((plus(total, atom), [*run, atom]))
        else:
            found.append((atom, [atom]))
    # Whatever joins, and how late: where a run of several ends says nothing about its insides.
    while len(found) > 1 and not is_safe(found[-1][0]):
        (before, first), (total, run) = found[-2:]
        found[-2:] = [(plus(before, total), [*first, *run])]
    return [run for _, run in found]
