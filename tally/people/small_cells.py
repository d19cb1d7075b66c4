"""Small cells: which counts are of people, and how atoms are merged until no small count remains.

The rule and its proof are in docs/adr/018-small-cells.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

_Atom = TypeVar("_Atom")

# A smaller threshold hides nothing: with a threshold of 2, a hidden cell can only be a 1.
MIN_THRESHOLD = 5


@dataclass(frozen=True)
class PersonCounts:
    """Which of a reading's parts count people.

    `tables`: by name the counts that are never published small, the first of them a sum.
    `table_by_part`: by part its table; the part is published wherever its table is. `shares`: parts
    that count some of a table's people, published for whole days only.
    """

    tables: Mapping[str, tuple[str, ...]]
    table_by_part: Mapping[str, str]
    shares: Mapping[str, str]


# By reading with rows of people's devices. A part that is not named here is never published.
PERSON_COUNTS: Mapping[str, PersonCounts] = {
    "presence": PersonCounts(
        # Twelve visits by three phones are visits by three people.
        {"visits": ("visits", "visitors"), "passes": ("passes",)},
        {
            "visits": "visits",
            "stay_seconds": "visits",
            "stay_minutes": "visits",
            "interval_seconds": "visits",
            "passes": "passes",
        },
        # Distinct devices too: the excess of visits over devices is the people who came back.
        {"bounces": "visits", "returns": "visits", "visitors": "visits"},
    )
}


def is_small(count: int, smallest: int) -> bool:
    """Whether the count is above 0 and below `smallest`.

    >>> [is_small(count, 10) for count in (0, 1, 9, 10)]
    [False, True, True, False]
    """
    return 0 < count < smallest


def split_safe_runs(
    atoms: Sequence[_Atom],
    plus: Callable[[_Atom, _Atom], _Atom],
    is_safe: Callable[[_Atom], bool],
) -> list[list[_Atom]]:
    """The atoms in their order, split from the left into the shortest runs whose sums are safe.

    An unsafe rest at the end is merged into the run before it, until the result is safe. Atoms
    whose total is not safe end as one run that is not safe either.

    >>> from operator import add
    >>> split_safe_runs([0, 3, 0, 9, 12, 2, 0], add, lambda count: not is_small(count, 10))
    [[0], [3, 0, 9], [12, 2, 0]]
    """
    found: list[tuple[_Atom, list[_Atom]]] = []
    for atom in atoms:
        if found and not is_safe(found[-1][0]):
            total, run = found.pop()
            found.append((plus(total, atom), [*run, atom]))
        else:
            found.append((atom, [atom]))
    # Merging more or later is harmless: the end of a run of several atoms reveals nothing inside.
    while len(found) > 1 and not is_safe(found[-1][0]):
        (before, first), (total, run) = found[-2:]
        found[-2:] = [(plus(before, total), [*first, *run])]
    return [run for _, run in found]
