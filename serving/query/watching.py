"""What the sensors of a store saw of each window of an answer."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from serving.query.cells import FamilyWindows
from serving.query.coverage import (
    NOBODY_WATCHES,
    CoverageRule,
    Roster,
    SeenWindow,
    expected_windows,
)
from serving.query.stores import Store
from tally.families import Family


class Watching(NamedTuple):
    """Looks at the sensors of a store; `rule`: when they have seen enough."""

    store: Store
    rule: CoverageRule

    def seen(
        self,
        families: Sequence[Family],
        starts: Sequence[datetime],
        windows: Sequence[FamilyWindows],
    ) -> Iterable[SeenWindow]:
        """What each sensor of the families saw of each window, `starts` (UTC) being theirs."""
        roster = Roster.of(self.store, families)
        # Most questions are of sales, which nobody has to stand at a door for.
        if not roster.by_family:
            return NOBODY_WATCHES
        return [
            [
                told
                for family, one in zip(families, served, strict=True)
                # One that is missing says so itself, and no sensor is blamed for it.
                if expected.seconds and one.merged.values is not None
                for told in roster.seen(family, one.merged.values, expected)
            ]
            for expected, served in zip(expected_windows(self.store, starts), windows, strict=True)
        ]
