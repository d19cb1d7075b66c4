"""What there is of an article by its movements, whichever of them came first."""

from tally.algebra.level import Level
from tally.algebra.parts import Value

LEVEL = Level("stock")
# So long an article's movements are told apart; what comes later than that lies behind all of them.
KEPT_MILLIS = 7 * 86_400_000
# And so long while nobody has counted it.
UNCOUNTED_MILLIS = 90 * 86_400_000


def with_moved(value: Value, at: int, brought: int) -> Value:
    """The level with one more movement, which happened at an instant (ms since 1970, UTC)."""
    return LEVEL.plus(value, [[at, brought]])


def level_of(value: Value) -> int | None:
    """What there is; None while nobody has counted."""
    return LEVEL.at_end(value)


def level_before(value: Value, at: int) -> int | None:
    """What there was just before an instant; None where nobody had counted by then.

    >>> level_before([[1, Level.count(5)], [3, Level.moved(-1)], [9, Level.moved(-1)]], 9)
    4
    """
    return LEVEL.at_end([one for one in value if one[0] < at])


def without_old(value: Value, before: int) -> Value:
    """The same level without what lies before an instant: counted then, or nothing is known.

    >>> sold, counted = Level.moved(-1), Level.count(5)
    >>> without_old([[1, counted], [2, sold], [9, sold]], 5) == [[5, Level.count(4)], [9, sold]]
    True
    >>> without_old([[1, sold], [9, sold]], 5) == [[9, sold]]
    True
    """
    kept = [one for one in value if one[0] >= before]
    level = level_before(value, before)
    # As if it had been counted at that very instant: what happens then comes behind it.
    return kept if level is None else [[before, Level.count(level)], *kept]
