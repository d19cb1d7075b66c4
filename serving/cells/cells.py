"""The cells of an answer: the windows of each stretch summed up, with the quality of the sum.

A level is entries less exits since the store's day began, at the end of each stretch.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from serving.cells.coverage import NO_SENSORS, SlotCoverage, WindowSensorSeconds
from serving.merge.served import UNSETTLED, ServedWindow
from serving.questions.catalogue import Formula, Metric, MetricValue, ratio
from serving.questions.question import StoreSlots
from tally.algebra.merge import Axes, Parts
from tally.families.family import Family
from tally.time.windows import WINDOW, TimeRange

# One window as each of the metric's families has it, in their order.
FamilyWindows: TypeAlias = tuple[ServedWindow, ...]
# The dimensions of a row, each with its value; dimensions that it does not name are summed up.
Split: TypeAlias = Mapping[str, str | None]
NO_SPLIT: Split = {}


@dataclass(slots=True)
class Cell:
    """One stretch: its events, the sources and statuses that went into it, and its parts by axes.

    Parts are kept by family because two families may have parts and axes of the same name: `visits`
    of doors and of phones are not one number.
    """

    slot: TimeRange
    events: int = 0
    # False for derived families: their speed layer does not say how many events there were.
    is_counted: bool = True
    # The number of its windows that have an answer, and that of all.
    known: int = 0
    windows: int = 0
    parts: dict[str, dict[Axes, Parts]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    statuses: set[str] = field(default_factory=set)
    sensor_coverage: SlotCoverage = field(default_factory=SlotCoverage)
    # Whether an interval of a counter lies across its begin, and across its end.
    is_begin_split: bool = False
    is_end_split: bool = False

    def add(
        self, families: Sequence[Family], window: FamilyWindows, seen: WindowSensorSeconds = ()
    ) -> None:
        """Add one more window if no family lacks it, and what each sensor saw of it."""
        self.windows += 1
        for name, seconds in seen:
            self.sensor_coverage.add(name, seconds)
        # Checked ahead of adding: a ratio of unlike stretches would mislead.
        for served in window:
            if served.merged.values is None:
                self.sources.add("missing")
                self.statuses.add(served.status)
                return
        self.known += 1
        if self.windows == 1:
            self.is_begin_split = _is_split(families, window, "continued")
        self.is_end_split = _is_split(families, window, "continues")
        for family, served in zip(families, window, strict=True):
            self.sources.add(served.merged.source)
            self.statuses.add(served.status)
            self.events += served.merged.events or 0
            self.is_counted = self.is_counted and served.merged.events is not None
            if served.merged.values:
                self.add_rows(family, served.merged.values)

    def add_rows(self, family: Family, rows: Mapping[Axes, Parts]) -> None:
        """Add a later stretch's parts by axes."""
        held = self.parts.setdefault(family.name, {})
        for axes, parts in rows.items():
            held[axes] = family.join_over_time(held[axes], parts) if axes in held else parts

    @property
    def is_missing(self) -> bool:
        """Whether none of its windows has an answer."""
        return self.sources == {"missing"}

    @property
    def is_split(self) -> bool:
        """Whether a counter's interval across a border had its persons divided between cells."""
        return self.is_begin_split or self.is_end_split

    @property
    def has_all_windows(self) -> bool:
        """Whether each of its windows has an answer."""
        return self.known == self.windows


def _is_split(families: Sequence[Family], window: FamilyWindows, mark: str) -> bool:
    """Whether a share of the window has the mark."""
    for family, served in zip(families, window, strict=True):
        # Most families have no such part, and this runs for each window of each store.
        rows = served.merged.values if mark in family.part_names else None
        if rows and any(parts.get(mark) for parts in rows.values()):
            return True
    return False


def build_cells(
    families: Sequence[Family],
    slots: Sequence[TimeRange],
    windows: Iterable[FamilyWindows],
    seen: Iterable[WindowSensorSeconds] = NO_SENSORS,
) -> list[Cell]:
    """A cell for each slot, of ascending windows that fill them, and of what sensors saw."""
    found, stream = [], zip(windows, seen, strict=False)
    for slot in slots:
        cell = Cell(slot)
        for _ in range((slot.end - slot.start) // WINDOW):
            cell.add(families, *next(stream))
        found.append(cell)
    return found


def join_cells(families: Sequence[Family], found: Sequence[Cell]) -> Cell:
    """Consecutive stretches as one cell; a ratio then is one of sums, never a mean of ratios."""
    by_name = {family.name: family for family in families}
    first, last = found[0], found[-1]
    whole = Cell(TimeRange(first.slot.start, last.slot.end))
    whole.is_begin_split, whole.is_end_split = first.is_begin_split, last.is_end_split
    for cell in found:
        whole.sources |= cell.sources
        whole.statuses |= cell.statuses
        whole.events += cell.events
        whole.is_counted = whole.is_counted and cell.is_counted
        whole.known += cell.known
        whole.windows += cell.windows
        whole.sensor_coverage.rule = cell.sensor_coverage.rule
        whole.sensor_coverage.join(cell.sensor_coverage)
        for name, rows in cell.parts.items():
            whole.add_rows(by_name[name], rows)
    return whole


def common_source(sources: Iterable[str]) -> str:
    """The common source of all: batch, speed or missing, or `mixed` where they differ."""
    different = set(sources)
    return different.pop() if len(different) == 1 else "mixed"


def weakest_status(statuses: Iterable[str]) -> str:
    """The weakest status: provisional, restated, final; not_measured where nothing is measured."""
    different = set(statuses)
    if different == {"not_measured"}:
        return "not_measured"
    # One window that may change, or was not measured, makes the sum one that may change.
    if different & UNSETTLED:
        return "provisional"
    return "restated" if "restated" in different else "final"


def values_in_cells(
    found: Iterable[Cell],
    families: Iterable[Family],
    dimension: str,
) -> set[str]:
    """Every value of the dimension that the cells have rows of, over all families that have it."""
    places = {
        family.name: family.axes.index(dimension) for family in families if dimension in family.axes
    }
    return {
        axes[place]
        for cell in found
        for name, place in places.items()
        for axes in cell.parts.get(name, ())
    }


def cell_values(metric: Metric, cell: Cell, split: Split = NO_SPLIT) -> dict[str, MetricValue]:
    """The `value` of a split in the metric's unit, a ratio's sides, an estimate's `error`."""
    (found,) = split_values(metric, cell, [split])
    return found


def split_values(
    metric: Metric, cell: Cell, splits: Sequence[Split]
) -> list[dict[str, MetricValue]]:
    """As cell_values() for each split, in order; all name the same dimensions."""
    found = _totals(metric.numerator, cell, splits)
    if metric.denominator is not None:
        sides = zip(found, _totals(metric.denominator, cell, splits), strict=True)
        each = ((above["value"], below["value"]) for above, below in sides)
        # A ratio of sums: in a mean of ratios a quiet hour would weigh as much as a busy one.
        found = [
            {"value": ratio(above, below), "numerator": above, "denominator": below}
            for above, below in each
        ]
    if cell.sensor_coverage.is_withheld:
        return [dict.fromkeys(values) for values in found]
    return found


def _totals(
    formula: Formula,
    cell: Cell,
    splits: Sequence[Split],
) -> list[dict[str, MetricValue]]:
    # A dimension that the family does not have is ignored.
    stated: dict[str, MetricValue] = {} if formula.error_description is None else {"error": None}
    if cell.is_missing:
        return [{"value": None, **stated} for _ in splits]
    # Grouped in one pass: else each of ten thousand queues would scan the rows of all the others.
    dimensions = [axis for axis in formula.family.axes if axis in splits[0]]
    rows: dict[tuple[str | None, ...], list[Parts]] = defaultdict(list)
    for axes, parts in cell.parts.get(formula.family.name, {}).items():
        named = zip(formula.family.axes, axes, strict=True)
        rows[tuple(value for axis, value in named if axis in splits[0])].append(parts)
    found = []
    for split in splits:
        place = tuple(split[dimension] for dimension in dimensions)
        joined = formula.join_rows(rows.get(place, ()))
        if stated:
            stated = {"error": formula.error(joined)}
        found.append({"value": formula.total(joined), **stated})
    return found


def format_row(
    cell: Cell, values: Mapping[str, MetricValue], instants: tuple[str, str]
) -> dict[str, Any]:
    """One row of the answer by field; `instants` are its start and end as text."""
    status = weakest_status(cell.statuses)
    return {
        "start": instants[0],
        "end": instants[1],
        **values,
        "events": None if cell.is_missing or not cell.is_counted else cell.events,
        "source": common_source(cell.sources),
        "status": status,
        "complete": status not in UNSETTLED and cell.sensor_coverage.is_enough,
        **({"split": True} if cell.is_split else {}),
        **cell.sensor_coverage.to_fields(),
    }


def level_cells(
    families: Sequence[Family],
    asked: StoreSlots,
    windows: Iterable[FamilyWindows],
    seen: Iterable[WindowSensorSeconds] = NO_SENSORS,
) -> list[Cell]:
    """A cell for each stretch: of asked.span's windows all those since the reset before its end."""
    assert asked.resets is not None
    stream, start = zip(windows, seen, strict=False), asked.span.start
    held, found = Cell(asked.resets.day(start)), []
    # In one pass: a separate sum for each stretch would read a day's windows a hundred times.
    for slot in asked.slots:
        while start < slot.end:
            if start >= held.slot.end:
                held = Cell(asked.resets.day(start))
            held.add(families, *next(stream))
            start += WINDOW
        found.append(_level_at_end(held, slot))
    return found


def _level_at_end(held: Cell, slot: TimeRange) -> Cell:
    if not held.has_all_windows:
        # Whoever came or went in the missing window may be inside: later windows cannot show it.
        return Cell(
            slot,
            known=held.known,
            windows=held.windows,
            sources={"missing"},
            statuses={weakest_status(held.statuses - {"final", "restated"})},
        )
    # Copied, for the walk goes on to add to these collections.
    return replace(
        held,
        slot=slot,
        parts={family: dict(rows) for family, rows in held.parts.items()},
        sources={*held.sources},
        statuses={*held.statuses},
        sensor_coverage=replace(held.sensor_coverage, sensors=dict(held.sensor_coverage.sensors)),
    )
