"""Snapshots of baselines in memory."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date

from serving.storage.views import BaselineReader
from tally.alerts.baseline import BaselineSnapshot

Snapshots = list[BaselineSnapshot]


class MemoryBaselines(BaselineReader):
    """A reader over snapshots in any order; `asked`: of which days was asked."""

    def __init__(
        self, snapshots: Sequence[BaselineSnapshot], check: Callable[[], Awaitable[None]]
    ) -> None:
        self._snapshots, self._check = snapshots, check
        self.asked: list[date] = []

    async def snapshot_for(self, day: date) -> BaselineSnapshot | None:
        await self._check()
        self.asked.append(day)
        begun = [one for one in self._snapshots if one.first_day <= day]
        return max(begun, key=lambda one: one.first_day, default=None)
