"""Small cells kept from answers: the whole local days that are read for it, and what they tell."""

from collections.abc import Iterable, Sequence
from itertools import chain

from serving.merge.served import FamilyReading, serve_windows
from serving.query import grains
from serving.query.blocks import DayCutter, ServedByStart, ToldDay
from serving.query.grains import Slot
from serving.query.question import StoreSlots
from serving.query.stores import StoreRegistry
from serving.query.told import ToldFamilies, ToldFamily
from tally.families import Family
from tally.small_cells import CENSUSES
from tally.windows import WINDOW, window_starts


class SmallCells:
    """Cells of fewer than `smallest` devices are withheld; of 0 everything is told."""

    def __init__(self, smallest: int, registry: StoreRegistry) -> None:
        self._smallest, self._registry = smallest, registry

    def covers(self, family: Family) -> bool:
        """Whether something of the family may be withheld: its rows are of people's devices."""
        return self._smallest > 0 and family.reading is not None

    def read_for(self, families: Iterable[Family], store: StoreSlots) -> StoreSlots:
        """What is read to answer of these stretches: for people the local days that they touch."""
        if not any(map(self.covers, families)):
            return store
        clock = self._registry.store(store.store_id).clock
        # By the store's own days, whatever zone is asked in: what is told hangs on no question.
        first = grains.nearest(store.slots[0].start, "1d", clock).start
        latest = store.slots[-1].end - WINDOW
        end = grains.nearest(latest, "1d", clock).end
        days = grains.slots(first, end, "1d", clock)
        return StoreSlots(store.store_id, clock, days)

    def told(self, read: StoreSlots, readings: Sequence[FamilyReading]) -> ToldFamilies:
        """What is told of the days that were read, by family."""
        covered = [one for one in readings if self.covers(one.family)]
        return {one.family.name: self._family(read, one) for one in covered}

    def _family(self, read: StoreSlots, reading: FamilyReading) -> ToldFamily:
        starts = window_starts(read.slots[0].start, read.slots[-1].end)
        windows = dict(zip(starts, serve_windows(reading, starts), strict=True))
        cutters = [
            DayCutter(reading.family, table, self._smallest, read.clock)
            for table in CENSUSES[reading.family.fields.name].tables
        ]
        tables = {one.table: _told_days(one, read.slots, windows) for one in cutters}
        seen = chain.from_iterable(one.merged.values or {} for one in windows.values())
        return ToldFamily(tables, frozenset(seen), self._smallest)


def _told_days(cutter: DayCutter, days: Sequence[Slot], windows: ServedByStart) -> list[ToldDay]:
    return [cutter.told_day(day, windows) for day in days]
