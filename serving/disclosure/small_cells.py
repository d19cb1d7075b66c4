"""Withholds small cells from answers, by the whole local days that an answer touches."""

from collections.abc import Iterable, Sequence
from itertools import chain

from serving.cells.blocks import DayCutter, DisclosedDay, ServedByStart
from serving.disclosure.policy import DisclosurePolicies, DisclosurePolicy
from serving.merge.served import FamilyReading, serve_windows
from serving.questions import grains
from serving.questions.question import StoreSlots
from serving.questions.stores import StoreRegistry
from tally.families.family import Family
from tally.people.small_cells import PERSON_COUNTS
from tally.time.windows import WINDOW, TimeRange, window_starts


class SmallCells:
    """Withholds cells of fewer than `smallest` devices; a `smallest` of 0 withholds nothing."""

    def __init__(self, smallest: int, registry: StoreRegistry) -> None:
        self._smallest, self._registry = smallest, registry

    def covers(self, family: Family) -> bool:
        """Whether values of the family may be withheld: its rows are of people's devices."""
        return self._smallest > 0 and family.reading is not None

    def slots_to_read(self, families: Iterable[Family], store: StoreSlots) -> StoreSlots:
        """The stretches to read for an answer: whole local days for families of people."""
        if not any(map(self.covers, families)):
            return store
        clock = self._registry.store(store.store_id).clock
        # By the store's own days in any zone of the question: what an answer shows must not depend
        # on how the question is put.
        first = grains.nearest(store.slots[0].start, "1d", clock).start
        latest = store.slots[-1].end - WINDOW
        end = grains.nearest(latest, "1d", clock).end
        days = grains.slots(first, end, "1d", clock)
        return StoreSlots(store.store_id, clock, days)

    def disclosure_policies(
        self, read: StoreSlots, readings: Sequence[FamilyReading]
    ) -> DisclosurePolicies:
        """The parts of the read days that an answer may show, by family name."""
        covered = [reading for reading in readings if self.covers(reading.family)]
        return {reading.family.name: self._build_policy(read, reading) for reading in covered}

    def _build_policy(self, read: StoreSlots, reading: FamilyReading) -> DisclosurePolicy:
        starts = window_starts(read.slots[0].start, read.slots[-1].end)
        windows = dict(zip(starts, serve_windows(reading, starts), strict=True))
        cutters = [
            DayCutter(reading.family, table, self._smallest, read.clock)
            for table in PERSON_COUNTS[reading.family.fields.name].tables
        ]
        tables = {cutter.table: _cut_days(cutter, read.slots, windows) for cutter in cutters}
        seen = chain.from_iterable(window.merged.values or {} for window in windows.values())
        return DisclosurePolicy(tables, frozenset(seen), self._smallest)


def _cut_days(
    cutter: DayCutter, days: Sequence[TimeRange], windows: ServedByStart
) -> list[DisclosedDay]:
    return [cutter.disclose_day(day, windows) for day in days]
