"""For which windows of a store a rebuild answers: by the key periods that it was heard in."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

from hypothesis import given
from hypothesis import strategies as st

from batch_layer.views.compute.presence import join_periods
from batch_layer.views.publish.registers import longest_span
from tally.families.generation import AnsweredSpan

DAY = 1440


def at(minute: int) -> datetime:
    return datetime.fromtimestamp(60 * minute, UTC)


def answered(days: Sequence[int], settled: int) -> list[tuple[float, float]]:
    """Spans in days since 1970, of a store in UTC that was heard on these days."""
    spans = join_periods([(day * DAY, day * DAY + DAY) for day in days], settled)
    return [(since.timestamp() / 86400, until.timestamp() / 86400) for since, until in spans]


def test_days_on_which_a_store_was_heard_are_answered_for_once_they_are_over() -> None:
    assert answered([1, 2, 3], settled=4 * DAY) == [(1, 4)]
    assert answered([1, 2, 3], settled=4 * DAY - 1) == [(1, 3)]


def test_days_of_an_outage_are_not_answered_for_before_or_after_it_ends() -> None:
    assert answered([1, 2], settled=9 * DAY) == [(1, 3)]
    assert answered([1, 2, 6], settled=9 * DAY) == [(1, 3), (6, 7)]


@given(st.sets(st.integers(0, 20)), st.integers(0, 20), st.integers(1, 6), st.integers(0, 21))
def test_what_is_said_of_a_day_does_not_hang_on_which_days_a_run_reads(
    heard: set[int], day: int, reach: int, settled: int
) -> None:
    near = [one for one in sorted(heard) if abs(one - day) <= reach]

    def said(days: Sequence[int]) -> AnsweredSpan | None:
        spans = join_periods([(one * DAY, one * DAY + DAY) for one in days], settled * DAY)
        return longest_span(date.fromordinal(date(1970, 1, 1).toordinal() + day), spans)

    is_answered = day in heard and day < settled
    assert (
        said(near)
        == said(sorted(heard))
        == ((at(day * DAY), at(day * DAY + DAY)) if is_answered else None)
    )


def test_what_a_period_that_runs_has_of_earlier_ones_is_left_to_the_speed_layer() -> None:
    """The store's zone was changed: two periods overlap."""
    assert join_periods([(0, DAY), (DAY - 60, 2 * DAY - 60)], DAY) == [(at(0), at(DAY - 60))]


def test_a_day_of_two_spans_is_answered_for_in_the_longer() -> None:
    spans = [(at(0), at(300)), (at(600), at(2 * DAY))]

    assert longest_span(date(1970, 1, 1), spans) == (at(600), at(DAY))
    assert longest_span(date(1970, 1, 2), spans) == (at(DAY), at(2 * DAY))
    assert longest_span(date(1970, 1, 3), spans) is None
