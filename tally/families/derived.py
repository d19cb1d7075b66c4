"""Families whose events can move to another window, or be taken back, as visits can.

For these families more events do not mean more truth: a visit that is prolonged leaves the window
in which it was counted. So the sides are not compared. A rebuild writes rows of what is closed
alone, and a generation says where a missing row means that nothing happened: there batch is
believed, elsewhere speed, whose rows are ordered by how far their partition was read.
"""

from collections.abc import Sequence
from typing import ClassVar

from tally.algebra.merge import MISSING, MergedWindow
from tally.algebra.parts import Part
from tally.families.kind import Kind, Side


class Derived(Kind):
    """The kind that serves batch for what a generation covers or has a row of, else speed.

    The `events` of its speed rows is the position in the partition, exclusive: a later state of the
    same window wins, even if it holds less.
    """

    name: ClassVar[str] = "derived"

    def merge(
        self,
        parts: Sequence[Part],
        speed: Side,
        batch: Side,
        covered: bool,
    ) -> MergedWindow:
        """Batch where it has a row or covers the window: its rows are of closed windows alone."""
        # How much either side has seen does not matter: a prolonged visit leaves its window poorer.
        # Nor does it matter that no generation covers the whole day: on a day before the first
        # arrival the speed layer may wait for ever for a sighting that closes the last visits.
        if batch is not None:
            return MergedWindow("batch", batch.events, batch.values)
        if covered:
            return MergedWindow("batch", 0, {})
        # The position of a speed row is no number of events.
        return MISSING if speed is None else MergedWindow("speed", None, speed.values)

    def explain_choice(self, speed: Side, batch: Side, covered: bool) -> str:
        """A sentence about what the generation covers, and which rows it has."""
        if covered:
            row = "no row, a true zero" if batch is None or not batch.values else "its row"
            return f"batch: everything in the window is closed, by a generation; {row}"
        if batch is not None:
            return "batch: its row is of a closed window; no generation vouches for the whole of it"
        if speed is None:
            return "missing: no generation covers the window and the speed layer has no row of it"
        return "speed: no generation covers the window yet; what it holds may still move"


DERIVED = Derived()
