"""The epoch of a day's rows, and that what covers a window covers it whole."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from runtime.registry.sources import SALES
from tally.families.epochs import Epochs, RaisedEpoch
from tally.families.generation import GenerationRange
from tally.time.windows import window_starts
from tests.support.serving.serving_world import at

days = st.dates(date(1, 1, 1), date(9999, 12, 31))
raises = st.lists(st.builds(RaisedEpoch, days, days, st.integers(1, 9)), max_size=4)


@given(raises, days)
def test_day_has_the_highest_epoch_that_any_of_its_spans_was_raised_to(
    raised: list[RaisedEpoch], day: date
) -> None:
    epochs = Epochs(3, tuple(raised))

    over = [one.epoch for one in raised if one.first <= day <= one.last]

    assert epochs.for_day(day) == max([3, *over])
    assert epochs.for_day(day) == Epochs(3, tuple(reversed(raised))).for_day(day)


def test_family_without_raised_days_has_one_epoch() -> None:
    assert SALES.epochs.for_day(date.min) == SALES.epochs.for_day(date.max) == SALES.epoch


def test_only_windows_that_lie_wholly_between_the_instants_are_covered() -> None:
    begin, end = at("2026-11-23T10:07"), at("2026-11-23T11:00")
    one = GenerationRange(begin.date(), 1, 1, begin, end)

    covered = [start for start in window_starts(at("2026-11-23T10:00"), end) if one.covers(start)]

    assert [start.minute for start in covered] == [15, 30, 45]
    assert not one.covers(end)
