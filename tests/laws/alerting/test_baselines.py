"""What is usual: that of the values that a snapshot was made of, and of no others, for good."""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from alerting.evaluate.scope.rule_set import BaselineRequest
from alerting.evaluate.snapshot.baseline_days import BaselineCache, BaselineSnapshotReader
from alerting.rules.conditions import matches_condition
from alerting.rules.rule import AgainstBaseline
from runtime.registry.sources import SALES
from serving.questions.stores import StoreRegistry
from tally.alerts.baseline import BaselineName, WindowBaseline
from tally.config.settings import Settings
from tally.time.instants import to_millis
from tally.time.windows import WINDOW_MILLIS
from tests.controls.alerts.baselines import FollowsWhatServes
from tests.support.evaluation.baselines import ONE_DAY, WEEK, fix, restated, serving
from tests.support.serving.serving_world import MemoryViews, World, at

STORE, EVALUATED = "367", date(2026, 11, 24)
TIMES = ("09:00", "09:15", "09:30", "09:45")
START = to_millis(at(f"{EVALUATED}T00:00"))
WEEKS: Mapping[BaselineName, int] = {"same_weekday_4w": 4, "hour_of_week": 8}


class Past(NamedTuple):
    """A day of a week before: receipts by quarter hour, and whether a generation covers it."""

    counts: tuple[int, ...]
    is_whole: bool = True

    @property
    def is_open(self) -> bool:
        """Whether anything was sold."""
        return any(self.counts)


counts = st.tuples(*[st.integers(0, 12)] * len(TIMES))
is_whole = st.sampled_from([True] * 5 + [False])
pasts = st.lists(st.builds(Past, counts, is_whole), max_size=9)
# Of which week, and what it is by then.
restatements = st.lists(st.tuples(st.integers(0, 8), st.builds(Past, counts)), max_size=6)


def written(world: World, week: int, past: Past, generation: int) -> None:
    """A generation has the day of so many weeks before."""
    day = EVALUATED - (week + 1) * WEEK
    sold = {time: count for time, count in zip(TIMES, past.counts, strict=True) if count}
    world.rows += restated(STORE, day, sold, generation)
    cut = {} if past.is_whole else {"covered_until": f"{day}T18:00"}
    world.pointers.append((SALES, serving(day, generation, **cut)))


def read(
    world: World,
    baseline: BaselineName,
    reader_class: type[BaselineSnapshotReader] = BaselineSnapshotReader,
) -> list[WindowBaseline | None]:
    """What is usual in the quarter hours, by one who has never asked before."""
    settings = Settings(default_timezone="UTC")
    days = BaselineCache(MemoryViews(world), StoreRegistry.load(settings), settings, reader_class)
    wanted = BaselineRequest("transactions", STORE, START, baseline)
    [found] = asyncio.run(days.read([wanted])).values()
    return [found.get(START + (36 + number) * WINDOW_MILLIS) for number in range(len(TIMES))]


def by_hand(
    weeks: Sequence[Past], baseline: BaselineName, number: int
) -> tuple[Fraction, Fraction] | None:
    """Mean and variance by Python's own statistics, None where too little is known."""
    most = WEEKS[baseline]
    # A store is no older than its oldest receipts; a day that is not covered has none.
    if not any(one.is_open and one.is_whole for one in weeks[most - 1 : most + 1]):
        return None
    said = [one.counts for one in weeks[:most] if one.is_open and one.is_whole]
    if 2 * len(said) < most:
        return None
    values = [
        Fraction(one)
        for counts in said
        for one in ([counts[number]] if baseline == "same_weekday_4w" else counts)
    ]
    return statistics.mean(values), statistics.variance(values)


@given(weeks=pasts, later=restatements, baseline=st.sampled_from([*WEEKS]))
def test_restating_changes_nothing_that_a_published_snapshot_serves(
    weeks: list[Past], later: list[tuple[int, Past]], baseline: BaselineName
) -> None:
    world = World()
    for week, past in enumerate(weeks):
        written(world, week, past, 1)
    fix(world, f"{EVALUATED - 2 * ONE_DAY}T00:40")
    before = read(world, baseline)

    for generation, (week, past) in enumerate(later, start=2):
        written(world, week, past, generation)
    # One that was made too late to serve the day.
    fix(world, f"{EVALUATED - ONE_DAY}T10:00")

    assert read(world, baseline) == before
    told = [None if one is None else (one.mean, one.variance) for one in before]
    assert told == [by_hand(weeks, baseline, number) for number in range(len(TIMES))]


def test_who_reads_what_serves_now_breaks_the_law() -> None:
    world, quiet = World(), Past((1, 1, 1, 1))
    for week in range(5):
        written(world, week, Past((8, 9, 10, 11)), 1)
    fix(world, f"{EVALUATED - 2 * ONE_DAY}T00:40")
    before = read(world, "same_weekday_4w", FollowsWhatServes)
    assert before == read(world, "same_weekday_4w")

    written(world, 2, quiet, 2)

    assert read(world, "same_weekday_4w") == before
    assert read(world, "same_weekday_4w", FollowsWhatServes) != before


@given(
    values=st.lists(st.integers(-50, 50), min_size=2, max_size=9),
    value=st.integers(-300, 300),
    sigmas=st.sampled_from(["0.1", "0.5", "1", "2.5", "3"]),
)
def test_deviations_are_counted_exactly(values: list[int], value: int, sigmas: str) -> None:
    whole = [Fraction(one) for one in values]
    usual = WindowBaseline(statistics.mean(whole), statistics.variance(whole))
    condition = AgainstBaseline("hour_of_week", sigmas=float(sigmas))
    if not usual.variance:
        assert matches_condition(condition, value, usual) is None
        return

    far = (value - usual.mean) ** 2 / usual.variance

    assert matches_condition(condition, value, usual) == (far >= Fraction(Decimal(sigmas)) ** 2)
