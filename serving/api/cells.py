"""Rows of an answer: the windows of each stretch summed up, with what the sum is worth."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from serving.api.catalogue import Metric, Value, ratio
from serving.api.grains import Slot
from serving.merge.served import ServedWindow
from tally.merge import Axes, add_parts

# One window as each of the metric's families has it.
Window = tuple[ServedWindow, ...]


@dataclass(slots=True)
class Cell:
    """One stretch: parts summed by axes, events, and which sources and statuses went into it."""

    slot: Slot
    events: int = 0
    parts: dict[Axes, Mapping[str, int]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    statuses: set[str] = field(default_factory=set)

    def add(self, window: Window) -> None:
        """One more window. A window that any family misses adds nothing: a ratio of unlike stretches would mislead."""
        for served in window:
            if served.merged.values is None:
                self.sources.add("missing")
                self.statuses.add("provisional")
                return
        for served in window:
            self.sources.add(served.merged.source)
            self.statuses.add(served.status)
            self.events += served.merged.events or 0
            for axes, parts in (served.merged.values or {}).items():
                self.parts[axes] = add_parts(self.parts[axes], parts) if axes in self.parts else parts

    @property
    def is_missing(self) -> bool:
        """Whether not one of its windows has an answer."""
        return self.sources == {"missing"}


def cells(slots: Sequence[Slot], windows: Iterable[Window]) -> list[Cell]:
    """A cell for each slot; windows ascend and fill the slots exactly, each slot taking its quarter hours."""
    found, stream = [], iter(windows)
    for start, end in slots:
        cell = Cell((start, end))
        for _ in range(round((end - start).total_seconds()) // 900):
            cell.add(next(stream))
        found.append(cell)
    return found


def source_of(sources: Iterable[str]) -> str:
    """One word for all: batch, speed, missing, or mixed."""
    different = set(sources)
    return different.pop() if len(different) == 1 else "mixed"


def status_of(statuses: Iterable[str]) -> str:
    """The weakest: provisional before restated before final."""
    different = set(statuses)
    return next((status for status in ("provisional", "restated") if status in different), "final")


def currencies(found: Iterable[Cell]) -> set[str]:
    """Every currency with rows in the cells."""
    return {axes[0] for cell in found for axes in cell.parts if axes}


def values_of(metric: Metric, cell: Cell, currency: str | None = None) -> dict[str, Value]:
    """`value`, and `numerator` and `denominator` of a ratio; of one currency, or of all axes together. None when missing."""
    total: Mapping[str, int] = {}
    for axes, parts in cell.parts.items():
        if currency is None or axes == (currency,):
            total = add_parts(total, parts)
    numerator = None if cell.is_missing else metric.numerator.total(total)
    if metric.denominator is None:
        return {"value": numerator}
    denominator = None if cell.is_missing else metric.denominator.total(total)
    return {"value": ratio(numerator, denominator), "numerator": numerator, "denominator": denominator}


def row_of(cell: Cell, values: Mapping[str, Value], instants: tuple[str, str]) -> dict[str, Any]:
    """One row as it is answered; `instants` are its start and end as text."""
    status = status_of(cell.statuses)
    return {
        "start": instants[0], "end": instants[1], **values, "events": None if cell.is_missing else cell.events,
        "source": source_of(cell.sources), "status": status, "complete": status != "provisional",
    }  # fmt: skip
