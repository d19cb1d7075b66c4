"""One window of a metric as rules read it."""

from typing import NamedTuple, TypeAlias

from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.shelves import WindowShelves
from alerting.evaluate.snapshot.stock import StockSpeedRows
from serving.cells.cells import Cell
from tally.families.generation import Generation


class FamilyDayRequest(NamedTuple):
    """Windows of one local day of a store, in one family."""

    family: str
    store_id: str
    span: WindowSpan


# The generation that serves a UTC day, for each family.
FamilyGenerations: TypeAlias = tuple[tuple[str, Generation | None], ...]


class MetricCell(NamedTuple):
    """One window of a metric.

    `cell`: the sums. `is_complete`: a generation covers the window. `is_hidden`: privacy rules
    withhold the value. `generations`: the generation that serves its UTC day, for each family. A
    stock has `shelves` in place of sums, and `speed_rows`: the speed layer's rows that it depends
    on.
    """

    cell: Cell
    is_complete: bool
    is_hidden: bool
    generations: FamilyGenerations
    shelves: WindowShelves | None = None
    speed_rows: tuple[StockSpeedRows, ...] = ()
