"""Weeks of a store in memory, and the snapshots of baselines that are made of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta

from runtime.registry.sources import SALES
from tally.alerts.baseline import BaselineSnapshot, build_snapshot, first_served_day
from tally.families.family import Family
from tally.families.generation import Generation
from tests.support.serving.serving_world import Stored, World, at, flip, sale

WEEK, ONE_DAY = timedelta(days=7), timedelta(days=1)
# More than any row of the speed layer has seen.
MANY = 100


def serving(day: date, generation: int = 1, **covered: str) -> Generation:
    """A generation of sales by today's definition."""
    of = flip(day.isoformat(), generation, f"{day}T23:30", 0, **covered)
    return replace(of, epoch=SALES.epoch)


def restated(
    store: str, day: date, counts: Mapping[str, int], generation: int = 1
) -> Iterator[Stored]:
    """So many receipts by the time (UTC) of a day, as a generation has them."""
    for time, count in counts.items():
        yield sale(store, f"{day}T{time}", MANY, 100, receipts=count, generation=generation)


def weeks_before(
    world: World, store: str, day: str, weeks: Sequence[Mapping[str, int]]
) -> list[date]:
    """That weekday of the weeks before, newest first, each served with so many receipts by time.

    With the day before each of them, in which the store's own day may begin.
    """
    days = [date.fromisoformat(day) - number * WEEK for number in range(1, len(weeks) + 1)]
    for one, counts in zip(days, weeks, strict=True):
        world.rows += restated(store, one, counts)
        world.pointers += [(SALES, serving(one - ONE_DAY)), (SALES, serving(one))]
    return days


def fix(world: World, made_at: str) -> BaselineSnapshot:
    """What the nightly job would make of the generations that serve by now, for all to read."""
    served: dict[Family, dict[date, Generation]] = {}
    for family, one in sorted(world.pointers, key=lambda pair: pair[1].generation):
        served.setdefault(family, {})[one.day] = one
    by_name = {family.name: days for family, days in served.items()}
    made = build_snapshot(first_served_day(at(made_at)), at(made_at), by_name)
    world.snapshots.append(made)
    return made
