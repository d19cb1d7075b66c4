"""A settled day of few devices, and everything that anybody is told of it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from serving.answer import Query, QueryEngine, StoreAnswer
from serving.questions import catalogue, grains
from serving.questions.question import StoreSlots
from serving.questions.stores import StoreRegistry
from serving.storage.tables import Activity, ViewRow
from tally.config.settings import Settings
from tally.time.instants import UTC_CLOCK
from tally.time.windows import WINDOW, TimeRange
from tests.support.serving.serving_world import WIFI, MemoryViews, Stored, World, at, flip

DAY, NEXT = "2026-11-23", "2026-11-24"
STORE = "367"
CLASSES = ("fixed", "random_associated")
# In the middle of an hour: days of six quarter hours are of two.
OPEN_AT = at(f"{DAY}T10:30")
DAY_SLOT = TimeRange(at(f"{DAY}T00:00"), at(f"{NEXT}T00:00"))


class Counts(NamedTuple):
    """What devices of one class bring to a window: of the visits some bounce, some return."""

    visits: int = 0
    passes: int = 0
    bounces: int = 0
    returns: int = 0


# By number of the quarter hour from OPEN_AT on, and class.
Day = Mapping[tuple[int, str], Counts]


def world_of(day: Day, days: Sequence[str] = (DAY,)) -> World:
    """The world in which a generation has settled each of the days, all like this one."""
    rows = [
        _row(of, quarter, mac_class, counts)
        for of in days
        for (quarter, mac_class), counts in day.items()
        if any(counts)
    ]
    world = World(rows, [(WIFI, flip(of, 1, f"{NEXT}T02:00", pin=10)) for of in days])
    dates = [date.fromisoformat(of) for of in days]
    world.activity = [(WIFI, Activity(STORE, dates[0], dates[-1]))]
    return world


def answered(day: Day, smallest: int) -> StoreAnswer:
    """The day's quarter hours as they are read, with what is told of them."""
    settings = Settings.model_construct(**{**dict(Settings()), "privacy_smallest_cell": smallest})
    views = MemoryViews(world_of(day))
    engine = QueryEngine(views, StoreRegistry.load(settings), settings)
    asked = StoreSlots(STORE, UTC_CLOCK, grains.slots(*DAY_SLOT, "15m", UTC_CLOCK))
    metric = catalogue.metric("in_store_traffic")
    (found,) = asyncio.run(engine.read(Query(metric, [asked], (), None)))
    return found


def stretches(quarters: int) -> Iterator[TimeRange]:
    """The day, and every stretch of the so many quarter hours from OPEN_AT on."""
    yield DAY_SLOT
    instants = [OPEN_AT + number * WINDOW for number in range(quarters + 1)]
    for number, start in enumerate(instants):
        yield from (TimeRange(start, end) for end in instants[number + 1 :])


def _row(day: str, quarter: int, mac_class: str, counts: Counts) -> Stored:
    start = at(f"{day}T10:30") + quarter * timedelta(minutes=15)
    first = 1 + 10_000 * (quarter * len(CLASSES) + CLASSES.index(mac_class))
    brought: dict[str, list[int]] = {
        "visits": [counts.visits],
        "passes": [counts.passes],
        "bounces": [counts.bounces],
        "returns": [counts.returns],
        "stay_seconds": [600 * counts.visits],
        "stay_minutes": [10] * counts.visits,
        "interval_seconds": [60] * counts.visits,
        # Whoever returns was a visitor of another window; here of this one, which is as few.
        "visitors": [first + number for number in range(counts.visits - counts.returns)],
    }
    numbers = [brought.get(part.name, []) for part in WIFI.parts]
    parts = tuple(
        part.fold([0] * len(some), some) for part, some in zip(WIFI.parts, numbers, strict=True)
    )
    zeros = tuple(part.zero for part in WIFI.parts)
    row = ViewRow(start, (mac_class,), WIFI.epoch, counts.visits + counts.passes, parts, zeros)
    return Stored(WIFI, STORE, row, 1)
