import itertools
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.query.grains import GRAINS, nearest, on_grid, slots
from tally.windows import WINDOW
from tests.support.serving_world import at

ZONES = (
    "UTC",
    "Europe/Rome",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
)


@given(
    st.sampled_from(ZONES).map(ZoneInfo),
    st.sampled_from(GRAINS),
    st.datetimes(at("2015-01-01").replace(tzinfo=None), at("2019-01-01").replace(tzinfo=None)),
)
def test_slots_follow_each_other_and_every_boundary_is_on_the_grid(
    zone: ZoneInfo, grain: str, moment: object
) -> None:
    start, end = nearest(at(str(moment).replace(" ", "T")), grain, zone)
    found = slots(start, end + 2 * WINDOW, grain, zone)
    assert found[0] == (start, end)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(found))
    assert all(on_grid(instant, grain, zone) for slot in found for instant in slot)


def test_half_an_hours_clock_change_makes_an_hour_of_ninety_minutes() -> None:
    zone = ZoneInfo("Australia/Lord_Howe")
    found = slots(at("2017-09-30T13:00"), at("2017-09-30T18:00"), "1h", zone)
    assert timedelta(minutes=90) in {end - start for start, end in found}


def test_day_that_begins_at_one_o_clock() -> None:
    zone = ZoneInfo("America/Sao_Paulo")
    start, end = nearest(at("2017-10-15T12:00"), "1d", zone)
    assert (start, end) == (at("2017-10-15T03:00"), at("2017-10-16T02:00"))


@pytest.mark.parametrize("grain", GRAINS)
def test_instants_between_quarter_hours_are_off_every_grid(grain: str) -> None:
    assert not on_grid(at("2017-09-18T00:00:00.001"), grain, ZoneInfo("UTC"))
