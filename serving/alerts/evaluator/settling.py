"""Which windows are settled: what is served of them changes no more but by a rebuild."""

from collections.abc import Iterable, Mapping
from datetime import date

from serving.alerts.evaluator.facts import WindowCells
from serving.alerts.evaluator.memory import FamilyDay, JudgedDay, PartitionMemory

_NEVER = JudgedDay()


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
        days = {
            (family, cell.cell.slot.start.date()) for cell in cells for family, _ in cell.served
        }
        judged = [self._now.get(of) or self._memory.judged.get(of, _NEVER) for of in days]
        # Beside whole days alone it is something else that is missing: it may still come.
        return any(one.is_settled for one in judged) and all(
            one.is_settled or one.is_whole for one in judged
        )

    def _judged(self, family: str, day: date) -> JudgedDay:
        of = family, day
        return self._now.get(of) or self._memory.judged.get(of, _NEVER)
