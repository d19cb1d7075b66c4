"""Persons inside on the last day of a period, by the people counters, and who is left over."""

from dataclasses import dataclass, field
from datetime import date, datetime

from serving.dashboard import charts
from serving.query import catalogue, cells, grains
from serving.query.coverage import Watch
from serving.query.formulas import MetricValue
from serving.query.question import StoreSlots
from serving.query.resets import Resets
from serving.query.stores import Store

METRIC = "occupancy"


@dataclass(frozen=True)
class PersonsInside:
    """The level by the end of each quarter hour of a store's day, UTC; None: not known.

    `is_counted`: whether a counter has told of what is known of the day; `watch`: for how long the
    counters were there.
    """

    store: Store
    day: date
    levels: tuple[tuple[datetime, MetricValue], ...]
    is_counted: bool
    is_settled: bool
    watch: Watch = field(default_factory=Watch)

    @property
    def residue(self) -> MetricValue:
        """The level with which the day ends; None until all of it is known."""
        return self.levels[-1][1]


def quarter_hours(store: Store, day: date) -> StoreSlots:
    """Those of the store's own day: 92, 96 or 100."""
    resets = Resets(store.clock)
    slots = grains.slots(*resets.own_day(day), "15m", store.clock)
    return StoreSlots(store.store_id, store.clock, slots, resets=resets)


def persons_inside(store: Store, day: date, found: list[cells.Cell]) -> PersonsInside:
    """The levels of a day as its cells have them."""
    metric = catalogue.metric(METRIC)
    ends = (cell.slot.end for cell in found)
    levels = (cells.values_of(metric, cell)["value"] for cell in found)
    is_settled = cells.is_settled(status for cell in found for status in cell.statuses)
    is_counted = any(cell.events for cell in found)
    pairs = tuple(zip(ends, levels, strict=True))
    return PersonsInside(store, day, pairs, is_counted, is_settled, found[-1].watch)


def inside_chart(inside: PersonsInside) -> charts.Options:
    """A line by the clock of the store, with a hole where nobody knows the level."""
    zone = inside.store.zone
    return {
        **charts.common(),
        "grid": {"left": 8, "right": 12, "top": 30, "bottom": 26, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {
            "type": "category",
            "data": [f"{end.astimezone(zone):%H:%M}" for end, _ in inside.levels],
            **charts.named(f"until ({inside.store.tz})", 30),
            "axisLabel": {"color": charts.QUIET, "hideOverlap": True, "fontSize": 11},
        },
        "yAxis": {
            "type": "value",
            "name": "persons",
            "nameTextStyle": {"color": charts.QUIET, "align": "left"},
            "axisLabel": {"color": charts.QUIET},
            "splitLine": {"lineStyle": {"color": charts.LINE}},
        },
        "series": [
            {
                "type": "line",
                # A step: it is the number at an instant, and nobody has counted in between.
                "step": "end",
                "showSymbol": False,
                "lineStyle": {"color": charts.BATCH},
                "itemStyle": {"color": charts.BATCH},
                "data": [level for _, level in inside.levels],
            }
        ],
    }


def known_text(inside: PersonsInside) -> str:
    """Of which day it is, and what is known of it."""
    known = sum(level is not None for _, level in inside.levels)
    if inside.watch.is_withheld:
        told = "withheld, for counters were silent"
    elif known == 0:
        told = "not known, for its first quarter hour is missing"
    elif not inside.is_counted:
        told = "no people counter has told anything of it"
    elif known < len(inside.levels):
        told = f"{known} of {len(inside.levels)} quarter hours known: up to the first missing one"
    elif not inside.watch.is_enough:
        told = "estimated, for counters were silent"
    else:
        told = "complete" if inside.is_settled else "provisional"
    return f"{inside.day:%a} {inside.day.day} {inside.day:%b}: {told}"


def residue_text(inside: PersonsInside) -> str:
    """Who is left over when the day ends, or why nobody can say."""
    if inside.residue is None:
        return "Left over at the end of the day: not known before all of it is"
    return (
        f"Left over at the end of the day: {inside.residue:,}. Of an empty store this is the"
        " error of the counters"
    )
