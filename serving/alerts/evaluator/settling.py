"""Which windows are settled: what is served of them changes no more but by a rebuild."""

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import product

from serving.alerts.evaluator.facts import WindowCells
from serving.alerts.evaluator.known import KnownWindows
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
        # By identity, with the windows: as long as they are kept no others have it.
        self._found: dict[int, tuple[KnownWindows, bytes]] = {}

    def settled(self, windows: KnownWindows) -> bytes:
        """A byte for each window, 1 where it is covered in all families or its day is settled."""
        # Most days are covered whole.
        if 0 not in windows.complete:
            return windows.complete
        # Many rules ask for the windows of one day.
        key = id(windows)
        if key not in self._found:
            self._found[key] = windows, self._made(windows)
        return self._found[key][1]

    def _made(self, windows: KnownWindows) -> bytes:
        open_ones = [place for place, one in enumerate(windows.complete) if not one]
        first, last = windows.cells[open_ones[0]], windows.cells[open_ones[-1]]
        # Of the day that goes on nothing is settled: asked once, and not for each of its windows.
        days = [one.metric.cell.slot.start.date() for one in (first, last)]
        families = {family for cell in first.all for family, _ in cell.served}
        judged = (self._judged(*of) for of in product(families, _days(*days)))
        if not any(one.is_settled for one in judged):
            return windows.complete
        return bytes(
            one or self._is_settled(cells)
            for one, cells in zip(windows.complete, windows.cells, strict=True)
        )

    def _is_settled(self, window: WindowCells) -> bool:
        judged: list[JudgedDay] = []
        for cell in window.all:
            of = cell.cell.slot.start.date()
            judged += (self._judged(family, of) for family, _ in cell.served)
        # Beside whole days alone it is something else that is missing: it may still come.
        return any(one.is_settled for one in judged) and all(
            one.is_settled or one.is_whole for one in judged
        )

    def _judged(self, family: str, day: date) -> JudgedDay:
        of = family, day
        return self._now.get(of) or self._memory.judged.get(of, _NEVER)


def _days(first: date, last: date) -> Iterator[date]:
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
