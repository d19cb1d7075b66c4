import itertools
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.questions.grains import GRAINS, nearest, on_grid, slots
from tally.time.day_clock import DayClock
from tally.time.instants import UTC_CLOCK
from tally.time.windows import WINDOW
from tests.support.serving.serving_world import at

ZONES = (
    "UTC",
    "Europe/Rome",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
)


@given(
    st.sampled_from(ZONES).map(ZoneInfo).map(DayClock.from_zone),
    st.sampled_from(GRAINS),
    st.datetimes(at("2015-01-01").replace(tzinfo=None), at("2019-01-01").replace(tzinfo=None)),
)
def test_slots_follow_each_other_and_every_boundary_is_on_the_grid(
    clock: DayClock, grain: str, moment: object
) -> None:
    start, end = nearest(at(str(moment).replace(" ", "T")), grain, clock)
    found = slots(start, end + 2 * WINDOW, grain, clock)
    assert found[0] == (start, end)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(found))
    assert all(on_grid(instant, grain, clock) for slot in found for instant in slot)


def test_half_an_hours_clock_change_makes_an_hour_of_ninety_minutes() -> None:
    clock = DayClock.from_zone(ZoneInfo("Australia/Lord_Howe"))
    found = slots(at("2017-09-30T13:00"), at("2017-09-30T18:00"), "1h", clock)
    assert timedelta(minutes=90) in {end - start for start, end in found}


def test_day_that_begins_at_one_o_clock() -> None:
    clock = DayClock.from_zone(ZoneInfo("America/Sao_Paulo"))
    start, end = nearest(at("2017-10-15T12:00"), "1d", clock)
    assert (start, end) == (at("2017-10-15T03:00"), at("2017-10-16T02:00"))


@pytest.mark.parametrize("grain", GRAINS)
def test_instants_between_quarter_hours_are_off_every_grid(grain: str) -> None:
    assert not on_grid(at("2017-09-18T00:00:00.001"), grain, UTC_CLOCK)
