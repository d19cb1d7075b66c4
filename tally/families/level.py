"""Families that say how much there is: stock on a shelf, people in a shop.

Their events are counts and movements. A window holds its last count and what moved after it
(tally.algebra.level.Level); the events of two writers are nested as in an additive family, so a
window is merged over the layers in the same way. Over time it is not: the level at the end of a
stretch is the last count in it and the movements since, never the sum of its windows. The level of
several items is the sum of their levels (tally/families/family.py).
"""

from typing import ClassVar

from tally.families.additive import Additive


class LevelKind(Additive):
    """Additive over the layers; over time `plus` of its Level parts forgets what was before."""

    name: ClassVar[str] = "level"


LEVEL = LevelKind()
