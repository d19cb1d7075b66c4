"""Families whose events can move to another window, or be taken back: visits, corrected sales.

Of these, more events do not mean more truth: a visit that is prolonged leaves the window in which
it was counted. So the sides are not compared. A generation says up to which instant everything is
closed; before it batch is believed, after it speed, whose rows are told apart by how far their
partition was read.
"""

from collections.abc import Sequence
from typing import ClassVar

from tally.algebra.merge import MISSING, MergedWindow
from tally.algebra.parts import Part
from tally.kinds.kind import Kind, Side


class Derived(Kind):
    """Batch for what a generation covers, else speed.

    The `events` of its speed rows is the position in the partition, exclusive: a later state of the
    same window overrules, even if it holds less.
    """

    name: ClassVar[str] = "derived"
    keeps_emptied: ClassVar[bool] = True

    def merge(
        self,
        parts: Sequence[Part],
        speed: Side,
        batch: Side,
        covered: bool,
    ) -> MergedWindow:
        """A batch row that no generation covers is of sessions that were open: nobody's answer."""
        # Before the border everything is closed, and a rebuild has seen all of it: how much either
        # side has seen says nothing here, for a prolonged visit leaves its window poorer.
        if covered:
            return (
                MergedWindow("batch", batch.events, batch.values)
                if batch is not None
                else MergedWindow("batch", 0, {})
            )
        return MISSING if speed is None else MergedWindow("speed", speed.events, speed.values)

    def because(self, speed: Side, batch: Side, covered: bool) -> str:
        """By what the generation covers."""
        if covered:
            row = "no row, a true zero" if batch is None or not batch.values else "its row"
            return f"batch: everything in the window is closed, by a generation; {row}"
        if speed is None:
            return "missing: no generation covers the window and the speed layer has no row of it"
        return "speed: no generation covers the window yet; what it holds may still move"


DERIVED = Derived()
