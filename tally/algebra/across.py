"""Rows of several values of an axis as one: what an answer joins, and no layer stores.

Over time two windows of one item are joined by Part.over_time. The rows of two items are not: of
levels the later count would forget what there is of the other item (10 and 5 gave 5). Nothing that
is stored hangs on this, so no definition of rows does (tests/unit/speed/definition_digest.py).
"""

from collections.abc import Sequence
from functools import reduce

from tally.algebra.level import Level
from tally.algebra.parts import Part, Value


def across(part: Part, rows: Sequence[Value]) -> Value:
    """The value of the events of all rows, which are of one stretch and of different values.

    A level is read: the sum of what there is of each; None where of one of them nobody knows.

    >>> across(Level("stock"), [[[1, Level.count(10)]], [[2, Level.count(5)]]])
    15
    """
    if isinstance(part, Level):
        levels = [part.at_end(row) for row in rows]
        # Without the item that nobody has counted the total would be too low, and not say so.
        return None if None in levels else sum(levels)
    # Of these parts it is the same whether events lie apart in time or in their axes; as over time
    # a sum has no bound, for nothing overflows in an answer.
    return reduce(part.over_time, rows)
