"""The stretches of a store that an answer may show, for families of people's devices.

The result depends on the data alone, and not on the question: docs/adr/018-small-cells.md.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from itertools import chain, product
from typing import Any, NamedTuple

from serving.cells.cells import Cell, Split, values_in_cells
from serving.merge.served import FamilyReading, ServedWindow, is_settled, serve_windows
from serving.questions import grains
from serving.questions.catalogue import (
    Extreme,
    Formula,
    Metric,
    Percentile,
    UniquesEstimate,
    WeightedSum,
)
from serving.questions.question import StoreSlots
from serving.questions.stores import StoreRegistry
from tally.algebra.merge import Axes, Parts
from tally.algebra.parts import Uniques
from tally.families.family import Family
from tally.people.small_cells import PERSON_COUNTS, is_small, split_safe_runs
from tally.time.day_clock import DayClock
from tally.time.windows import WINDOW, TimeRange, window_starts

TOO_FEW_DEVICES = "too few devices to tell"
NOT_SETTLED = "withheld until all of its days are settled"
# The name of the share that each value of the axes has of a day.
BY = "by"
_FINER = {"1d": "1h", "1h": "15m"}
ServedByStart = Mapping[datetime, ServedWindow]


@dataclass(frozen=True)
class DisclosedDay:
    """A local day: why nothing of it is shown, or else the borders of its blocks."""

    slot: TimeRange
    suppression_reason: str | None
    borders: frozenset[datetime] = frozenset()
    # The parts, or BY, that are shown for the day as a whole.
    shares: frozenset[str] = frozenset()


class _Block(NamedTuple):
    slot: TimeRange
    parts: Parts
    inside: tuple["_Block", ...] = ()


@dataclass(frozen=True)
class DayCutter:
    """Cuts local days of a store by one table of a family, so that no block is of few devices."""

    family: Family
    table: str
    smallest: int
    clock: DayClock

    def disclose_day(self, day: TimeRange, windows: ServedByStart) -> DisclosedDay:
        """The parts of a day that an answer may show, by all of its windows."""
        quarters = grains.slots(*day, "15m", self.clock)
        own = [windows[quarter.start] for quarter in quarters]
        # The difference between two answers during the day would reveal who came in between.
        if not is_settled(window.status for window in own):
            return DisclosedDay(day, NOT_SETTLED)
        whole = self._build_block(day, "1d", windows)
        if not self._is_safe(whole.parts):
            return DisclosedDay(day, TOO_FEW_DEVICES)
        borders = frozenset((day.start, *self._ends(whole.inside)))
        return DisclosedDay(day, None, borders, frozenset(self._shares(whole.parts, own)))

    def _build_block(self, slot: TimeRange, grain: str, windows: ServedByStart) -> _Block:
        if grain == "15m":
            values = windows[slot.start].merged.values or {}
            return _Block(slot, self.family.join_across_axes([*values.values()]))
        finer = _FINER[grain]
        slots = grains.slots(*slot, finer, self.clock)
        inside = tuple(self._build_block(part, finer, windows) for part in slots)
        return _Block(slot, self._join(piece.parts for piece in inside), inside)

    def _ends(self, stretches: Sequence[_Block]) -> Iterator[datetime]:
        for run in split_safe_runs(stretches, self._plus, lambda piece: self._is_safe(piece.parts)):
            yield run[-1].slot.end
            # Several stretches that are shown as one have no finer blocks inside.
            if len(run) == 1:
                yield from self._ends(run[0].inside)

    def _shares(self, whole: Parts, own: Sequence[ServedWindow]) -> Iterator[str]:
        census = PERSON_COUNTS[self.family.fields.name]
        everyone = self._count(census.tables[self.table][0], whole)
        for name, table in census.shares.items():
            count = self._count(name, whole)
            # Few devices outside of the share are as identifiable as few in it.
            is_of_few = any(is_small(part, self.smallest) for part in (count, everyone - count))
            if table == self.table and not is_of_few:
                yield name
        by_axes: dict[Axes, Parts] = {}
        rows = ((window.merged.values or {}).items() for window in own)
        for axes, parts in chain.from_iterable(rows):
            by_axes[axes] = self.family.join_over_time(by_axes.get(axes, {}), parts)
        if all(map(self._is_safe, by_axes.values())):
            yield BY

    def _is_safe(self, parts: Parts) -> bool:
        names = PERSON_COUNTS[self.family.fields.name].tables[self.table]
        return not any(is_small(self._count(name, parts), self.smallest) for name in names)

    def _count(self, name: str, parts: Parts) -> int:
        (part,) = (declared for declared in self.family.parts if declared.name == name)
        value = parts.get(name, part.zero)
        return round(part.estimate(value)) if isinstance(part, Uniques) else int(value)

    def _plus(self, left: _Block, right: _Block) -> _Block:
        both = TimeRange(left.slot.start, right.slot.end)
        return _Block(both, self._join((left.parts, right.parts)))

    def _join(self, every: Iterable[Parts]) -> Parts:
        nothing: Parts = {}
        # Empty parts are skipped: most quarter hours are empty.
        return reduce(self.family.join_over_time, (parts for parts in every if parts), nothing)


@dataclass(frozen=True)
class DisclosurePolicy:
    """The parts of one family that an answer may show: by table each local day, ascending."""

    tables: Mapping[str, Sequence[DisclosedDay]]
    # Of the rows of all days.
    row_axes: frozenset[Axes]
    smallest: int

    @cached_property
    def _slots(self) -> list[TimeRange]:
        return [day.slot for day in next(iter(self.tables.values()))]

    def has_day(self, stretch: TimeRange) -> bool:
        """Whether the stretch is one of the local days."""
        return stretch in self._slots

    def part_reason(
        self, side: Formula, name: str, stretch: TimeRange, is_split: bool
    ) -> str | None:
        """Why a part of a metric's side is withheld for a stretch; None if it is shown."""
        census = PERSON_COUNTS[side.family.fields.name]
        table = census.table_by_part.get(name) or census.shares.get(name)
        # A part that no census declares is withheld; so are shares of shares.
        if table is None or (is_split and name in census.shares):
            return TOO_FEW_DEVICES
        days = self._days(table, stretch)
        if dark := next((day.suppression_reason for day in days if day.suppression_reason), None):
            return dark
        if not is_split and name in census.table_by_part:
            is_on_borders = stretch.start in days[0].borders and stretch.end in days[-1].borders
            return None if is_on_borders else TOO_FEW_DEVICES
        # The uniques of two days and those of each day together reveal how many came on both.
        if len(days) > 1 and isinstance(side, UniquesEstimate):
            return TOO_FEW_DEVICES
        is_whole = (days[0].slot.start, days[-1].slot.end) == stretch
        share = BY if is_split else name
        is_shared = is_whole and all(share in day.shares for day in days)
        return None if is_shared else TOO_FEW_DEVICES

    def _days(self, table: str, stretch: TimeRange) -> Sequence[DisclosedDay]:
        first = bisect_right(self._slots, stretch.start, key=lambda slot: slot.start) - 1
        after = bisect_left(self._slots, stretch.end, key=lambda slot: slot.start)
        return self.tables[table][first:after]


# By family name; a family that is not of people's devices is absent.
DisclosurePolicies = Mapping[str, DisclosurePolicy]


def suppression_reason(
    policies: DisclosurePolicies, metric: Metric, stretch: TimeRange, is_split: bool = False
) -> str | None:
    """Why the metric's value of a stretch is withheld; None if it is shown."""
    for side in (metric.numerator, metric.denominator):
        if side is not None and (policy := policies.get(side.family.name)):
            for name in _part_names(side):
                if why := policy.part_reason(side, name, stretch, is_split):
                    return why
    return None


def bins_suppression_reason(
    policies: DisclosurePolicies, metric: Metric, days: Iterable[tuple[TimeRange, Sequence[int]]]
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
    """The rows of the cells and splits, each with `suppressed`, and nulls where that is true."""
    # Unchanged for a metric that is not of people's devices.
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
    """The values of a dimension that rows are listed for."""
    # Of people's devices those of whole days: values of a quarter hour would reveal who was there.
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
        first = grains.nearest(store.slots[0].start, "1d", clock)
        last = grains.nearest(store.slots[-1].end - WINDOW, "1d", clock)
        days = grains.slots(first.start, last.end, "1d", clock)
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
        tables = {}
        for table in PERSON_COUNTS[reading.family.fields.name].tables:
            cutter = DayCutter(reading.family, table, self._smallest, read.clock)
            tables[table] = [cutter.disclose_day(day, windows) for day in read.slots]
        seen = chain.from_iterable(window.merged.values or {} for window in windows.values())
        return DisclosurePolicy(tables, frozenset(seen), self._smallest)
