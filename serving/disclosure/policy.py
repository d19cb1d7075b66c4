"""The stretches of a store that an answer may show, for families of people's devices.

The result depends on the data alone, and not on the question: docs/adr/018-small-cells.md.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Any

from serving.cells.blocks import BY, TOO_FEW_DEVICES, DayCutter, DisclosedDay, ServedByStart
from serving.cells.cells import Cell, Split, values_in_cells
from serving.merge.served import FamilyReading, serve_windows
from serving.metrics.catalogue import Metric
from serving.metrics.formulas import Extreme, Formula, Percentile, UniquesEstimate, WeightedSum
from serving.questions import grains
from serving.questions.grains import Slot
from serving.questions.question import StoreSlots
from serving.questions.stores import StoreRegistry
from tally.algebra.merge import Axes
from tally.families.family import Family
from tally.people.small_cells import PERSON_COUNTS, is_small
from tally.time.windows import WINDOW, window_starts


@dataclass(frozen=True)
class DisclosurePolicy:
    """The parts of one family that an answer may show: by table each local day, without a gap.

    The days ascend; `row_axes` are the axes of the rows of all of them.
    """

    tables: Mapping[str, Sequence[DisclosedDay]]
    row_axes: frozenset[Axes]
    smallest: int

    def has_day(self, stretch: Slot) -> bool:
        """Whether the stretch is one of the local days."""
        return any(day.slot == stretch for day in next(iter(self.tables.values())))

    @cached_property
    def _starts(self) -> list[Any]:
        return [day.slot.start for day in next(iter(self.tables.values()))]

    def suppression_reason(self, side: Formula, stretch: Slot, is_split: bool) -> str | None:
        """Why a side of a metric is withheld for a stretch; None if it is shown."""
        each = (self._part_reason(side, name, stretch, is_split) for name in _part_names(side))
        return next((why for why in each if why is not None), None)

    def _part_reason(
        self,
        side: Formula,
        name: str,
        stretch: Slot,
        is_split: bool,
    ) -> str | None:
        census = PERSON_COUNTS[side.family.fields.name]
        table = census.table_by_part.get(name) or census.shares.get(name)
        # A part that no census declares is withheld; so are shares of shares.
        if table is None or (is_split and name in census.shares):
            return TOO_FEW_DEVICES
        days = self._days(table, stretch)
        if dark := next((day.suppression_reason for day in days if day.suppression_reason), None):
            return dark
        if not is_split and name in census.table_by_part:
            return None if _on_borders(days, stretch) else TOO_FEW_DEVICES
        # The uniques of two days and those of each day together reveal how many came on both.
        if len(days) > 1 and isinstance(side, UniquesEstimate):
            return TOO_FEW_DEVICES
        return None if _is_shared(days, stretch, BY if is_split else name) else TOO_FEW_DEVICES

    def _days(self, table: str, stretch: Slot) -> Sequence[DisclosedDay]:
        first = bisect_right(self._starts, stretch.start) - 1
        return self.tables[table][first : bisect_left(self._starts, stretch.end)]


# By family name; a family that is not of people's devices is absent.
DisclosurePolicies = Mapping[str, DisclosurePolicy]


def suppression_reason(
    policies: DisclosurePolicies,
    metric: Metric,
    stretch: Slot,
    is_split: bool = False,
) -> str | None:
    """Why the metric's value of a stretch is withheld; None if it is shown."""
    for side in (metric.numerator, metric.denominator):
        if side is not None and (family := policies.get(side.family.name)):
            why = family.suppression_reason(side, stretch, is_split)
            if why is not None:
                return why
    return None


def bins_suppression_reason(
    policies: DisclosurePolicies, metric: Metric, days: Iterable[tuple[Slot, Sequence[int]]]
) -> str | None:
    """Why a histogram of the metric is withheld; None if it is shown.

    `days` are its counts by day; each has to be a whole local day without any small count.
    """
    family = policies.get(metric.numerator.family.name)
    if family is None:
        return None
    for day, counts in days:
        if why := suppression_reason(policies, metric, day):
            return why
        if not family.has_day(day) or any(is_small(count, family.smallest) for count in counts):
            return TOO_FEW_DEVICES
    return None


def suppress_rows(
    policies: DisclosurePolicies,
    metric: Metric,
    found: Sequence[Cell],
    splits: Sequence[Split],
    rows: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """The rows of the cells and splits, each with `suppressed`, and nulls where that is true.

    The rows are unchanged if no family of the metric is of people's devices.
    """
    if not any(family.name in policies for family in metric.families):
        return rows
    shown = []
    for (cell, split), row in zip(product(found, splits), rows, strict=True):
        is_hidden = suppression_reason(policies, metric, cell.slot, bool(split)) is not None
        # Events of a window are sightings, so a low number of them means few devices.
        numbers = ("value", "numerator", "denominator", "error") if is_hidden else ()
        nulls = {name: None for name in numbers if name in row}
        # The name of a layer would reveal that there is a row, and so that someone was there.
        source = "mixed" if is_hidden else row["source"]
        marks = {"events": None, "source": source, "suppressed": is_hidden}
        shown.append({**row, **nulls, **marks})
    return shown


def dimension_values(
    policies: DisclosurePolicies, found: Sequence[Cell], families: Sequence[Family], dimension: str
) -> set[str]:
    """The values of a dimension that rows are listed for.

    Families of people's devices list those of whole days: values of a quarter hour would reveal who
    was there.
    """
    others = [family for family in families if family.name not in policies]
    return values_in_cells(found, others, dimension).union(
        axes[family.axes.index(dimension)]
        for family in families
        if family.name in policies and dimension in family.axes
        for axes in policies[family.name].row_axes
    )


def _part_names(side: Formula) -> list[str]:
    match side:
        case WeightedSum():
            return [*side.weights]
        case Extreme():
            return [side.part]
        case UniquesEstimate() | Percentile():
            return [side.part.name]
    raise TypeError(f"{side!r}: it is unknown which parts it has")


def _on_borders(days: Sequence[DisclosedDay], stretch: Slot) -> bool:
    return stretch.start in days[0].borders and stretch.end in days[-1].borders


def _is_shared(days: Sequence[DisclosedDay], stretch: Slot, share: str) -> bool:
    is_whole = (days[0].slot.start, days[-1].slot.end) == stretch
    return is_whole and all(share in day.shares for day in days)


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
    cutter: DayCutter, days: Sequence[Slot], windows: ServedByStart
) -> list[DisclosedDay]:
    return [cutter.disclose_day(day, windows) for day in days]
