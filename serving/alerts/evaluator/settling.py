"""Which windows are settled: what is served of them changes no more but by a rebuild."""

from collections.abc import Iterable, Mapping

from serving.alerts.evaluator.facts import WindowCells
from serving.alerts.evaluator.memory import FamilyDay, JudgedDay, PartitionMemory
from serving.alerts.evaluator.moment import JudgedCell


class SettledDays:
    """Days that no rebuild will cover whole, because a later one already is.

    A gap in the topics bounds what generations cover of its day for good, and the day on which a
    family began is covered from its first arrival on. `now`: what this pass judges days by.
    """

    def __init__(
        self, memory: PartitionMemory, now: Mapping[FamilyDay, JudgedDay] | None = None
    ) -> None:
        self._memory, self._now = memory, now or {}

    def are_settled(self, windows: Iterable[WindowCells]) -> bytes:
        """A byte for each window: 1 where it is covered in all families or its day is settled."""
        return bytes(one.is_complete or self._is_settled(one) for one in windows)

    def _is_settled(self, window: WindowCells) -> bool:
        cells = (window.metric, *window.minimum)
        return all(
            cell.is_complete or all(self._has_settled(family, cell) for family, _ in cell.served)
            for cell in cells
        )

    def _has_settled(self, family: str, cell: JudgedCell) -> bool:
        of = family, cell.cell.slot.start.date()
        judged = self._now.get(of) or self._memory.judged.get(of)
        return judged is not None and (judged.is_settled or judged.is_whole)
