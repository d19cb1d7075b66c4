"""What is usual of a share: of the days on which both of its sides have sent."""

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from fractions import Fraction

import pytest

from alerting.evaluate.scope.rule_set import BaselineRequest
from alerting.evaluate.snapshot import baseline_days
from alerting.evaluate.snapshot.baseline_days import BaselineCache
from runtime.registry.sources import TRAFFIC
from serving.questions.stores import StoreRegistry
from tally.alerts.baseline import WindowBaseline
from tally.config.settings import Settings
from tally.time.instants import to_millis
from tests.support.evaluation.baselines import ONE_DAY, fix, serving, weeks_before
from tests.support.serving.serving_world import MemoryViews, World, at, counted

STORE, DAY = "367", "2026-11-24"
WINDOW = to_millis(at(f"{DAY}T09:00"))
WEEKS = range(1, 6)


def usual(sold_in: Collection[int], counted_in: Collection[int]) -> WindowBaseline | None:
    """What is usual of ten receipts of twenty visitors, each sent in these weeks before alone."""
    world = World()
    days = weeks_before(
        world, STORE, DAY, [{"09:00": 10} if one in sold_in else {} for one in WEEKS]
    )
    for week, day in zip(WEEKS, days, strict=True):
        if week in counted_in:
            world.rows.append(counted(STORE, f"{day}T09:00", 100, 20, generation=1))
        for of in (day - ONE_DAY, day):
            world.pointers.append((TRAFFIC, replace(serving(of), epoch=TRAFFIC.epoch)))
    fix(world, "2026-11-22T00:40")
    settings = Settings(default_timezone="UTC")
    reader = BaselineCache(MemoryViews(world), StoreRegistry.load(settings), settings)
    start = to_millis(at(f"{date.fromisoformat(DAY)}T00:00"))
    [found] = asyncio.run(
        reader.read([BaselineRequest("conversion", STORE, start, "same_weekday_4w")])
    ).values()
    return found.get(WINDOW)


@pytest.mark.parametrize(
    ("sold_in", "counted_in", "days"),
    [
        (WEEKS, WEEKS, 4),
        # The tills were away for a week, or the counters.
        ({1, 3, 4, 5}, WEEKS, 3),
        (WEEKS, {1, 3, 4, 5}, 3),
        # One of them has not been there long enough.
        ({1, 2, 3}, WEEKS, None),
        (WEEKS, {1, 2, 3}, None),
        ({1, 2, 3, 4}, {1, 2, 3, 5}, None),
        ((), WEEKS, None),
    ],
)
def test_a_day_counts_on_which_both_sides_of_a_share_have_sent(
    sold_in: Collection[int], counted_in: Collection[int], days: int | None
) -> None:
    found = usual(sold_in, counted_in)

    assert (found and (found.mean, found.days)) == (days and (Fraction(1, 2), days))


@pytest.mark.parametrize("stores", [1, 3])
def test_days_of_now_are_kept_however_many_they_are(
    stores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline_days, "_MAX_DAYS", 1)
    world, settings = World(), Settings(default_timezone="UTC")
    fix(world, "2026-11-22T00:40")
    views = MemoryViews(world)
    reader = BaselineCache(views, StoreRegistry.load(settings), settings)
    begin = to_millis(at(f"{DAY}T00:00"))
    wanted = [
        BaselineRequest("units", f"{store}", begin - days * 86_400_000, "hour_of_week")
        for store in range(stores)
        for days in (0, 1)
    ]

    asyncio.run(reader.read(wanted))
    known = len(reader._cache)
    asyncio.run(reader.read(wanted))

    assert known == len(reader._cache) == len(wanted)
