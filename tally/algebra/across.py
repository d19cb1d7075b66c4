"""The join of rows with several values of an axis, for answers only: no layer stores the result.

Over time, two windows of one item are joined by Part.over_time. The rows of two items are not: with
levels, the later count would discard the level of the other item (10 and 5 gave 5). No stored row
depends on this, so no definition of rows does either
(tests/unit/speed/definitions/definition_digest.py).
"""

from collections.abc import Sequence
from functools import reduce

from tally.algebra.level import Level
from tally.algebra.parts import Part, Value


def join_across_axes(part: Part, rows: Sequence[Value]) -> Value:
    """The value of the events of all rows, which are of one stretch and of different values.

    A level is evaluated: the sum of the levels of all rows; None where one of them is unknown.

    >>> milk, bread = [[1, Level.encode_count(10)]], [[2, Level.encode_count(5)]]
    >>> join_across_axes(Level("stock"), [milk, bread])
    15
    """
    if isinstance(part, Level):
        levels = [part.at_end(row) for row in rows]
        # Without the item that was never counted the total would be too low, and not say so.
        return None if None in levels else sum(levels)
    # For all other parts it does not matter whether events differ in time or in their axes; as over
    # time a sum has no bound, for nothing overflows in an answer.
    return reduce(part.join_over_time, rows)
