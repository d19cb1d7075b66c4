"""The numbers of the store page, computed from the quarter hours of a period.

All functions here are pure. A ratio is a sum divided by a sum.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import takewhile
from typing import Literal, NamedTuple

from serving.cells import cells
from serving.cells.coverage import SlotCoverage
from serving.merge.served import is_settled
from serving.questions import catalogue, grains
from serving.questions.catalogue import MetricValue
from serving.questions.grains import Resets
from serving.questions.question import StoreSlots
from serving.questions.stores import Store
from serving.reports.comparison import change_percent
from tally.families.family import CURRENCY
from tally.time.day_clock import DayClock

HOURS = 24
OCCUPANCY = "occupancy"
METRICS = ("revenue", "transactions", "average_basket", "units")
FigureState = Literal["complete", "provisional", "missing"]
# The place of a quarter hour in its period: number of the day, local time, fold.
PeriodPlace = tuple[int, time, int]
# Numbers of [weekday][hour], Monday first.
HeatMap = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Day:
    """Revenue of one local day in minor units, by the layer that answered; None: it has none."""

    day: date
    batch: int | None
    speed: int | None

    @property
    def is_missing(self) -> bool:
        """Whether neither layer has an answer for the day."""
        return self.batch is None and self.speed is None


@dataclass(frozen=True)
class CoverageCounts:
    """How many quarter hours of the period are complete, provisional and missing.

    `through`: every record that arrived by then is counted; None unless each day has a generation.
    `settled_until`: the end of the last quarter hour before the first that is not complete.
    """

    complete: int
    provisional: int
    missing: int
    through: datetime | None
    settled_until: datetime | None

    @property
    def state(self) -> FigureState:
        """The state of the whole period; complete only if every quarter hour is complete."""
        if self.complete + self.provisional == 0:
            return "missing"
        return "provisional" if self.provisional + self.missing else "complete"


@dataclass(frozen=True)
class Card:
    """One number, and the change in per cent of its compared part; None: that was 0 or unknown."""

    metric: str
    value: MetricValue
    change_percent: float | None


@dataclass(frozen=True)
class Figures:
    """Everything that the page shows for one store and period.

    `heat`: mean receipts. `compared_quarters`: how many quarter hours of the period are compared
    with the period before, None if all of them are.
    """

    currency: str
    other_currencies: tuple[str, ...]
    cards: tuple[Card, ...]
    days: tuple[Day, ...]
    heat: HeatMap
    coverage: CoverageCounts
    compared_quarters: int | None = None


class ComparedCells(NamedTuple):
    """The quarter hours that are compared, of a period and of the one before; or all of both."""

    now: Sequence[cells.Cell]
    before: Sequence[cells.Cell]
    is_complete: bool


@dataclass(frozen=True)
class PeriodCells:
    """The days of a period, and its quarter hours as served."""

    days: Sequence[date]
    cells: Sequence[cells.Cell]
    through: datetime | None


def compute_figures(
    now: PeriodCells, before: PeriodCells, clock: DayClock, currency: str
) -> Figures:
    """The figures of a period; money in `currency` only, since currencies cannot be added up."""
    # Taken from both periods, so that a currency the comparison leaves out is named too.
    others = _currencies([*now.cells, *before.cells]) - {currency}
    compared = select_comparable(now, before, clock)
    return Figures(
        currency,
        tuple(sorted(others)),
        tuple(_card(metric, now, compared, currency) for metric in METRICS),
        _days(now, clock, currency),
        _heat(now.cells, clock),
        _coverage(now),
        None if compared.is_complete else len(compared.now),
    )


def select_comparable(now: PeriodCells, before: PeriodCells, clock: DayClock) -> ComparedCells:
    """The parts of two periods that may be compared.

    If both periods are complete, all of both is compared. Otherwise only the quarter hours at the
    same place in both (day of the period and local time) that are complete in both are compared.
    For a period that is not over, this is its part so far.
    """
    # Complete periods are compared as they are, because a period with a clock change has quarter
    # hours for which the other has no counterpart.
    if all(_is_complete(cell) for cell in (*now.cells, *before.cells)):
        return ComparedCells(now.cells, before.cells, True)
    places, earlier = _complete_places(now, clock), _complete_places(before, clock)
    both = [place for place in places if place in earlier]
    before_cells = [earlier[place] for place in both]
    return ComparedCells([places[place] for place in both], before_cells, False)


def _complete_places(period_cells: PeriodCells, clock: DayClock) -> dict[PeriodPlace, cells.Cell]:
    # The fold distinguishes the two equal hours of a night in which clocks go back.
    cells_by_place = {}
    for cell in filter(_is_complete, period_cells.cells):
        local = cell.slot.start.astimezone(clock.zone)
        day_number = (clock.day(cell.slot.start) - period_cells.days[0]).days
        cells_by_place[day_number, local.time(), local.fold] = cell
    return cells_by_place


def _is_complete(cell: cells.Cell) -> bool:
    return is_settled(cell.statuses)


def main_currency(found: Sequence[cells.Cell], default: str) -> str:
    """The store's own currency if it occurs or none does, else the first in alphabetical order."""
    currencies = _currencies(found)
    return default if default in currencies or not currencies else min(currencies)


def _currencies(found: Sequence[cells.Cell]) -> set[str]:
    return cells.values_in_cells(found, catalogue.metric("revenue").families, CURRENCY)


def _card(metric_id: str, now: PeriodCells, compared: ComparedCells, currency: str) -> Card:
    part, previous = (
        _total(metric_id, found, currency) for found in (compared.now, compared.before)
    )
    return Card(metric_id, _total(metric_id, now.cells, currency), change_percent(part, previous))


def _total(metric_id: str, found: Sequence[cells.Cell], currency: str) -> MetricValue:
    metric = catalogue.metric(metric_id)
    only = {CURRENCY: currency} if metric.is_money else cells.NO_SPLIT
    # Missing cells are left out instead of counted as 0, so without any known cell there is no sum.
    known = [cell for cell in found if not cell.is_missing]
    if not known:
        return None
    values = [cells.cell_values(metric, cell, only) for cell in known]

    def add(part: str) -> int | float:
        return sum(parts[part] or 0 for parts in values)

    if metric.denominator is None:
        return add("value")
    return catalogue.ratio(add("numerator"), add("denominator"))


def _days(period_cells: PeriodCells, clock: DayClock, currency: str) -> tuple[Day, ...]:
    revenue = catalogue.metric("revenue")
    by_day: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for cell in period_cells.cells:
        if not cell.is_missing:
            # Sums are kept by layer, so that a reader sees which part of a day may still change.
            source = cells.common_source(cell.sources)
            value = cells.cell_values(revenue, cell, {CURRENCY: currency})["value"]
            by_day[clock.day(cell.slot.start)][source] += int(value or 0)
    days = []
    for day in period_cells.days:
        layers = by_day[day]
        days.append(Day(day, layers.get("batch"), layers.get("speed")))
    return tuple(days)


def _heat(found: Sequence[cells.Cell], clock: DayClock) -> HeatMap:
    """Mean receipts of each hour of the week, over the hours with at least one known quarter."""
    receipts = catalogue.metric("transactions")
    sums: dict[tuple[int, int], float] = defaultdict(float)
    hours: dict[tuple[int, int], set[date]] = defaultdict(set)
    for cell in found:
        if not cell.is_missing:
            local = cell.slot.start.astimezone(clock.zone)
            hour_of_week = local.weekday(), local.hour
            sums[hour_of_week] += cells.cell_values(receipts, cell)["value"] or 0
            # A set of dates counts an hour once in the mean, no matter how many quarters are known.
            hours[hour_of_week].add(local.date())
    means = {}
    for key, total in sums.items():
        means[key] = round(total / len(hours[key]), 2)
    rows = []
    for weekday in range(7):
        rows.append(tuple(means.get((weekday, hour)) for hour in range(HOURS)))
    return tuple(rows)


def _coverage(period_cells: PeriodCells) -> CoverageCounts:
    missing = sum(cell.is_missing for cell in period_cells.cells)
    complete = sum(_is_complete(cell) for cell in period_cells.cells)
    # Only the leading complete cells count: a complete cell after one that may still change does
    # not extend the settled span.
    settled = list(takewhile(_is_complete, period_cells.cells))
    until = settled[-1].slot.end if settled else None
    return CoverageCounts(
        complete, len(period_cells.cells) - missing - complete, missing, period_cells.through, until
    )


@dataclass(frozen=True)
class Occupancy:
    """The level at the end of each quarter hour of a store's day, UTC; None if it is not known.

    `is_counted`: whether any counter has sent events for the known part of the day. `watch`: for
    how long the counters were present.
    """

    store: Store
    day: date
    levels: tuple[tuple[datetime, MetricValue], ...]
    is_counted: bool
    is_settled: bool
    watch: SlotCoverage = field(default_factory=SlotCoverage)

    @property
    def residue(self) -> MetricValue:
        """The level at the end of the day; None until the whole day is known."""
        return self.levels[-1][1]


def quarter_hours(store: Store, day: date) -> StoreSlots:
    """The quarter hours of the store's own day: 88 to 104."""
    resets = Resets(store.clock)
    slots = grains.slots(*resets.day_on(day), "15m", store.clock)
    return StoreSlots(store.store_id, store.clock, slots, resets=resets)


def compute_occupancy(store: Store, day: date, found: list[cells.Cell]) -> Occupancy:
    """The levels of a day, computed from its cells."""
    metric = catalogue.metric(OCCUPANCY)
    ends = (cell.slot.end for cell in found)
    levels = (cells.cell_values(metric, cell)["value"] for cell in found)
    is_complete = is_settled(status for cell in found for status in cell.statuses)
    is_counted = any(cell.events for cell in found)
    pairs = tuple(zip(ends, levels, strict=True))
    return Occupancy(store, day, pairs, is_counted, is_complete, found[-1].sensor_coverage)
