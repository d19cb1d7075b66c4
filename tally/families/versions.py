"""Versions of batch rows: a generation writes only the rows that differ from those served before.

The row of a generation is the newest version up to it, among published generations. A version
without a value says that the generation has no such row.
"""

from collections.abc import Collection, Hashable, Iterable
from typing import NamedTuple, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
# Key, generation that wrote it, value.
RowVersion = tuple[KeyT, int, ValueT | None]


class VersionChoice(NamedTuple):
    """The generation whose rows are wanted, and all that were ever published of the day."""

    generation: int
    published: Collection[int]

    def with_newest(self, generation: int) -> "VersionChoice":
        """The choice once this generation is published too, and serves."""
        return VersionChoice(generation, {*self.published, generation})


# Of a day that no generation serves.
NOTHING = VersionChoice(0, ())


def select_versions(
    versions: Iterable[RowVersion[KeyT, ValueT]], choice: VersionChoice
) -> dict[KeyT, ValueT]:
    """The rows of a generation by key, from all versions of the day's rows in any order.

    >>> versions = [("10:00", 1, 5), ("10:00", 4, 6), ("10:15", 1, 2), ("10:15", 3, None)]
    >>> select_versions(versions, VersionChoice(3, {1, 3}))
    {'10:00': 5}
    >>> select_versions(versions, VersionChoice(4, {1, 4}))
    {'10:00': 6, '10:15': 2}
    """
    newest: dict[KeyT, tuple[int, ValueT | None]] = {}
    generation, published = choice
    for key, number, value in versions:
        # Rows of a run that died, or that was refused, are there too.
        if number > generation or number not in published:
            continue
        if key not in newest or newest[key][0] < number:
            newest[key] = number, value
    return {key: value for key, (_, value) in newest.items() if value is not None}
