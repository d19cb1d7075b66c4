"""The settled windows, whose served numbers only a rebuild can still change."""

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import product

from alerting.evaluate.snapshot.window_facts import WindowCells
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.evaluate.verdicts.facts_cache import DayFacts

_NEVER = EvaluatedDay()


class SettledDays:
    """Days that no rebuild will ever cover whole, because a later day is covered already.

    A gap in the topics limits for good what generations cover of its day, and the day on which a
    family began is covered only from its first arrival on. `now`: the generations by which this
    pass judges days.
    """

    def __init__(
        self, memory: PartitionMemory, now: Mapping[FamilyDay, EvaluatedDay] | None = None
    ) -> None:
        self._memory, self._now = memory, now or {}
        # The key is the identity of the windows, which are kept too, so that it stays unique.
        self._settled: dict[int, tuple[DayFacts, bytes]] = {}

    def window_flags(self, windows: DayFacts) -> bytes:
        """A byte for each window, 1 where it is covered in all families or its day is settled."""
        # The usual case: the day is covered whole.
        if 0 not in windows.complete:
            return windows.complete
        # Cached, because many rules need the same windows.
        key = id(windows)
        if key not in self._settled:
            self._settled[key] = windows, self._compute_flags(windows)
        return self._settled[key][1]

    def _compute_flags(self, windows: DayFacts) -> bytes:
        uncovered = [place for place, complete in enumerate(windows.complete) if not complete]
        first, last = windows.cells[uncovered[0]], windows.cells[uncovered[-1]]
        # Checked once and not for each window: nothing of the current day is settled.
        days = [window.metric.cell.slot.start.date() for window in (first, last)]
        families = {family for cell in first.all for family, _ in cell.generations}
        judged = (self._find_day(*family_day) for family_day in product(families, _days(*days)))
        if not any(day.is_settled for day in judged):
            return windows.complete
        return bytes(
            complete or self._is_settled(cells)
            for complete, cells in zip(windows.complete, windows.cells, strict=True)
        )

    def _is_settled(self, window: WindowCells) -> bool:
        judged: list[EvaluatedDay] = []
        for cell in window.all:
            date_utc = cell.cell.slot.start.date()
            judged += (self._find_day(family, date_utc) for family, _ in cell.generations)
        # If all days are whole, something else is missing, and it may still arrive.
        return any(day.is_settled for day in judged) and all(
            day.is_settled or day.is_whole for day in judged
        )

    def _find_day(self, family: str, day: date) -> EvaluatedDay:
        key = family, day
        return self._now.get(key) or self._memory.evaluated_days.get(key, _NEVER)


def _days(first: date, last: date) -> Iterator[date]:
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
