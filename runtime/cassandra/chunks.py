"""A sequence cut into pieces of a bounded length."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def chunks(items: Sequence[Item], at_once: int) -> Iterator[list[Item]]:
    """Yield the items in their order, at most `at_once` in a piece; no piece is empty.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    starts = range(0, len(items), at_once)
    return (list(items[first : first + at_once]) for first in starts)
