"""The samples of the proof: in their turn every lane of every month."""

from datetime import date, timedelta

from batch_layer.links.first_copies import LANES
from batch_layer.views.proof import LANES_AT_ONCE, choose_sample

DAYS = [date(2026, 1, 15) + timedelta(days=number) for number in range(60)]
GROUPS = LANES // LANES_AT_ONCE


def test_all_lanes_and_months_have_their_turn() -> None:
    samples = [choose_sample(number, DAYS) for number in range(3 * GROUPS)]

    proved = {(lane, day) for sample in samples for lane in sample.lanes for day in sample.days}
    assert proved == {(lane, day) for lane in range(LANES) for day in DAYS}
    assert all(len({day.month for day in sample.days}) == 1 for sample in samples)


def test_newest_month_comes_first_and_again_after_the_oldest() -> None:
    first, again = choose_sample(0, DAYS), choose_sample(3 * GROUPS, DAYS)

    assert first == again
    assert {day.month for day in first.days} == {3}


def test_nothing_served_is_an_empty_sample() -> None:
    assert choose_sample(5, []).days == []
