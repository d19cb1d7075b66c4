"""What the sensors of a store saw of each stretch of an answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from serving.query.cells import Cell, FamilyWindows
from serving.query.coverage import CoverageRule, Roster, expected_windows
from serving.query.stores import Store
from tally.families import Family
from tally.windows import WINDOW


class Watching(NamedTuple):
    """Looks at the sensors of a store; `rule`: when they have seen enough."""

    store: Store
    rule: CoverageRule

    def over(
        self,
        found: Sequence[Cell],
        families: Sequence[Family],
        starts: Sequence[datetime],
        windows: Sequence[FamilyWindows],
    ) -> None:
        """Tell each stretch what the sensors of its families saw of its windows.

        `windows` are those of the stretches one after the other, `starts` (UTC) theirs.
        """
        roster = Roster.of(self.store, families)
        # Most questions are of sales, which nobody has to stand at a door for.
        if not roster.by_family:
            return
        stream = zip(expected_windows(self.store, starts), windows, strict=True)
        for cell in found:
            cell.watch.rule = self.rule
            for _ in range((cell.slot.end - cell.slot.start) // WINDOW):
                expected, served = next(stream)
                # A window that is missing says so itself, and no sensor is blamed for it.
                values = [one.merged.values for one in served] if expected.seconds else []
                for family, held in zip(families, values, strict=False):
                    if held is not None:
                        for name, seen in roster.seen(family, held, expected):
                            cell.watch.add(name, seen)
