"""Rows of an answer: the windows of each stretch summed up, with the quality of the sum."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from serving.cells.coverage import NO_SENSORS, SlotCoverage, WindowSensorSeconds
from serving.merge.served import UNSETTLED, ServedWindow
from serving.metrics.catalogue import Metric, ratio
from serving.metrics.formulas import Formula, MetricValue
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
    """One stretch: its events, and by family the parts summed by axes.

    It also has the sources and statuses that went into it. Parts are kept by family because two
    families may have parts and axes of the same name: `visits` of doors and of phones are not one
    number.
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
        """Add one more window, and what each sensor saw of it.

        A window that any family lacks adds nothing: a ratio of unlike stretches would mislead.
        """
        self.windows += 1
        for name, seconds in seen:
            self.sensor_coverage.add(name, seconds)
        # Checked ahead of adding: neither side of a ratio may have what the other lacks.
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
                held = self.parts.setdefault(family.name, {})
                for axes, parts in served.merged.values.items():
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
    """A cell for each slot, summed over its quarter hours.

    The windows ascend and fill the slots exactly; `seen` is what each sensor saw of them.
    """
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
    first, last = found[0].slot, found[-1].slot
    whole = Cell(TimeRange(first.start, last.end))
    whole.is_begin_split = found[0].is_begin_split
    whole.is_end_split = found[-1].is_end_split
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
            held = whole.parts.setdefault(name, {})
            for axes, parts in rows.items():
                over_time = by_name[name].join_over_time
                held[axes] = over_time(held[axes], parts) if axes in held else parts
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
    """The metric's `value`, a ratio's `numerator` and `denominator`, an estimate's `error`.

    They are those of one split, or of everything together, in the metric's unit; None when missing.
    """
    (found,) = split_values(metric, cell, [split])
    return found


def split_values(
    metric: Metric, cell: Cell, splits: Sequence[Split]
) -> list[dict[str, MetricValue]]:
    """As cell_values() for each split, in order; all name the same dimensions."""
    found = _split_values(metric, cell, splits)
    return (
        [dict.fromkeys(values) for values in found] if cell.sensor_coverage.is_withheld else found
    )


def _split_values(
    metric: Metric, cell: Cell, splits: Sequence[Split]
) -> list[dict[str, MetricValue]]:
    # A ratio of sums: in a mean of ratios a quiet quarter hour would weigh as much as a busy one.
    numerators = _totals(metric.numerator, cell, splits)
    if metric.denominator is None:
        return numerators
    sides = zip(numerators, _totals(metric.denominator, cell, splits), strict=True)
    return [
        {
            "value": ratio(above["value"], below["value"]),
            "numerator": above["value"],
            "denominator": below["value"],
        }
        for above, below in sides
    ]


def _totals(
    formula: Formula,
    cell: Cell,
    splits: Sequence[Split],
) -> list[dict[str, MetricValue]]:
    """The value of each split over the family's rows, and how far it may be off.

    A dimension that the family does not have is ignored.
    """
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
