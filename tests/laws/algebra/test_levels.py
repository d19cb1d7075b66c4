"""A level at an instant is one number, however time is cut before it and wherever a page begins:
the sum of all windows since the store's day began, and none behind a window that is missing."""

from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.registry.sources import TRAFFIC
from serving.cells.cells import Cell, build_cells, cell_values, level_cells
from serving.merge.served import UNKNOWN, ServedWindow
from serving.questions import catalogue
from serving.questions.grains import Resets
from serving.questions.question import StoreSlots
from tally.algebra.merge import MergedWindow
from tally.time.day_clock import DayClock
from tally.time.windows import WINDOW, TimeRange, window_starts
from tests.laws.algebra.test_merge_controls import SEARCH
from tests.support.serving.serving_world import at

UTC = ZoneInfo("UTC")
OCCUPANCY = catalogue.metric("occupancy")
# Over the nights of 2026 on which clocks are set in Europe; of Kathmandu, 05:45 before UTC, none.
FIRSTS = [at("2026-03-27T00:00"), at("2026-10-23T00:00")]
DAYS, BEFORE = 4, 2
ALL = DAYS * 96
ZONES = ["Europe/Bratislava", "Asia/Kathmandu", "America/New_York", "UTC"]


class Walked(NamedTuple):
    """The windows of some days: of most nobody came, some are missing."""

    first: datetime
    crossed: dict[int, tuple[int, int]]
    missing: set[int]

    def served(self, start: datetime) -> ServedWindow:
        place = (start - self.first) // WINDOW
        if place in self.missing:
            return UNKNOWN
        came, left = self.crossed.get(place, (0, 0))
        parts = {part.name: part.zero for part in TRAFFIC.parts}
        parts |= {"entries": came, "exits": left}
        return ServedWindow(MergedWindow("batch", 1, {(): parts}), "final")


places = st.integers(0, ALL - 1)
counts = st.tuples(st.integers(0, 50), st.integers(0, 50))
histories = st.builds(
    Walked,
    st.sampled_from(FIRSTS),
    st.dictionaries(places, counts, max_size=12),
    st.sets(places, max_size=2),
)
clocks = st.builds(
    Resets,
    st.builds(
        DayClock.from_zone,
        st.sampled_from(ZONES).map(ZoneInfo),
        st.sampled_from([time(0), time(4), time(12, 30)]),
    ),
)
# Numbers of windows at which stretches end; the first days are left for the resets before.
ends_of_stretches = st.sets(st.integers(96 * BEFORE, ALL), min_size=2, max_size=8).map(sorted)
CutCells = Callable[[StoreSlots, list[tuple[ServedWindow, ...]]], list[Cell]]


def of_levels(asked: StoreSlots, windows: list[tuple[ServedWindow, ...]]) -> list[Cell]:
    return level_cells([TRAFFIC], asked, windows)


def levels(
    walked: Walked, resets: Resets, ends: Sequence[int], made: CutCells = of_levels
) -> dict[int, object]:
    """By end the level of each stretch, of one page that reads what it has to."""
    edges = [walked.first + end * WINDOW for end in ends]
    slots = tuple(TimeRange(*edge) for edge in pairwise(edges))
    asked = StoreSlots("1", resets.clock, slots, resets=resets)
    read: list[tuple[ServedWindow, ...]] = [
        (walked.served(start),) for start in window_starts(*asked.span)
    ]
    found = [cell_values(OCCUPANCY, cell)["value"] for cell in made(asked, read)]
    return dict(zip(ends[1:], found, strict=True))


def plain(walked: Walked, resets: Resets, end: int) -> int | None:
    """The level by its definition, window by window, by what the store's clock shows."""

    def day(place: int) -> object:
        shown = (walked.first + place * WINDOW).astimezone(resets.clock.zone).replace(tzinfo=None)
        starts = resets.clock.parts[0].day_starts
        return (shown - timedelta(hours=starts.hour, minutes=starts.minute)).date()

    own = [place for place in range(end) if day(place) == day(end - 1)]
    if walked.missing.intersection(own):
        return None
    pairs = [walked.crossed.get(place, (0, 0)) for place in own]
    return sum(came - left for came, left in pairs)


def check(walked: Walked, resets: Resets, ends: Sequence[int], made: CutCells) -> None:
    found = levels(walked, resets, ends, made)
    assert found == {end: plain(walked, resets, end) for end in found}


@given(histories, clocks, ends_of_stretches)
def test_level_is_the_sum_since_the_day_began_whatever_stretch_ends_there(
    walked: Walked, resets: Resets, ends: list[int]
) -> None:
    check(walked, resets, ends, of_levels)


@given(histories, clocks, st.integers(24 * BEFORE, ALL // 4 - 1))
def test_level_of_an_hour_and_of_a_page_is_that_of_its_last_quarter_hour(
    walked: Walked, resets: Resets, hour: int
) -> None:
    end = 4 * hour + 4
    (whole,) = levels(walked, resets, [4 * hour, end]).values()

    quarters = levels(walked, resets, range(4 * hour, end + 1))
    last = levels(walked, resets, [end - 1, end])

    assert whole == quarters[end] == last[end]


def summed(asked: StoreSlots, windows: list[tuple[ServedWindow, ...]]) -> list[Cell]:
    """What a level would be as a sum of its stretch."""
    before = (asked.slots[0].start - asked.span.start) // WINDOW
    return build_cells([TRAFFIC], asked.slots, windows[before:])


def test_with_stretches_summed_it_is_not() -> None:
    @SEARCH
    @given(histories, clocks, ends_of_stretches)
    def search(walked: Walked, resets: Resets, ends: list[int]) -> None:
        check(walked, resets, ends, summed)

    with pytest.raises(AssertionError):
        search()
