"""Persons inside on the last day of a period, by the people counters, and the residue at its end.

The residue is the number of persons counted as still inside when the day ends.
"""

from dataclasses import dataclass, field
from datetime import date, datetime

from serving.cells import cells
from serving.cells.coverage import SlotCoverage
from serving.merge.served import is_settled
from serving.metrics import catalogue
from serving.metrics.formulas import MetricValue
from serving.questions import grains
from serving.questions.question import StoreSlots
from serving.questions.resets import Resets
from serving.questions.stores import Store
from web.dashboard.shared import charts

METRIC = "occupancy"


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
    metric = catalogue.metric(METRIC)
    ends = (cell.slot.end for cell in found)
    levels = (cells.cell_values(metric, cell)["value"] for cell in found)
    is_complete = is_settled(status for cell in found for status in cell.statuses)
    is_counted = any(cell.events for cell in found)
    pairs = tuple(zip(ends, levels, strict=True))
    return Occupancy(store, day, pairs, is_counted, is_complete, found[-1].sensor_coverage)


def occupancy_chart(inside: Occupancy) -> charts.Options:
    """A line chart by the store's clock, with a gap where the level is not known."""
    ends = [f"{end.astimezone(inside.store.zone):%H:%M}" for end, _ in inside.levels]
    return {
        **charts.line_axes(f"until ({inside.store.tz})", ends, "persons", top=30),
        "series": [
            {
                "type": "line",
                # A step line, because a level belongs to an instant and there is none in between.
                "step": "end",
                "showSymbol": False,
                "lineStyle": {"color": charts.BATCH},
                "itemStyle": {"color": charts.BATCH},
                "data": [level for _, level in inside.levels],
            }
        ],
    }


def day_state_text(inside: Occupancy) -> str:
    """The day, and how much is known of it, as text."""
    known = sum(level is not None for _, level in inside.levels)
    if inside.watch.is_withheld:
        state = "withheld, for counters were silent"
    elif known == 0:
        state = "not known, for its first quarter hour is missing"
    elif not inside.is_counted:
        state = "no people counter has reported anything for it"
    elif known < len(inside.levels):
        state = f"{known} of {len(inside.levels)} quarter hours known: up to the first missing one"
    elif not inside.watch.is_enough:
        state = "estimated, for counters were silent"
    else:
        state = "complete" if inside.is_settled else "provisional"
    return f"{inside.day:%a} {inside.day.day} {inside.day:%b}: {state}"


def residue_text(inside: Occupancy) -> str:
    """The residue at the end of the day as text, or why it is not known."""
    if inside.residue is None:
        return "Left over at the end of the day: not known before all of it is"
    return (
        f"Left over at the end of the day: {inside.residue:,}. Of an empty store this is the"
        " error of the counters"
    )
