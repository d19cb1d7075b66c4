"""Which days a rebuild computes."""

from datetime import UTC, date, datetime

import pytest

from batch_layer.views.pointer import Pointer
from batch_layer.views.scope import Reach, Wanted, days_between, dirty_days, parse_days, with_gaps

MONDAY, TUESDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 7), date(2017, 3, 8)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def published(*days: date, pinned: int = 10, epoch: int = 1, covered_until: datetime = NOW) -> dict[date, Pointer]:
    return {day: Pointer(day, 1, epoch, covered_until, {0: pinned}, {}) for day in days}


def reach(until: dict[date, int], covered_until: datetime = NOW) -> Reach:
    return Reach(1, covered_until, {day: {0: offset} for day, offset in until.items()})


def test_days_are_both_inclusive() -> None:
    assert parse_days("2017-03-06..2017-03-08") == Wanted("days", MONDAY, WEDNESDAY)
    assert days_between(MONDAY, WEDNESDAY) == [MONDAY, TUESDAY, WEDNESDAY]


def test_gap_of_a_year_is_quiet_time_and_a_longer_one_a_wrong_clock() -> None:
    year = days_between(date(2017, 1, 1), date(2018, 1, 2))

    assert with_gaps([date(1, 1, 1), year[0], year[-1], date(2019, 1, 4)]) == {date(1, 1, 1), *year, date(2019, 1, 4)}


@pytest.mark.parametrize(
    "text",
    ["", "2017-03-06", "2017-03-06..", "2017-03-06..tomorrow", "a..b..c", "2017-03-08..2017-03-06", "0001-01-01..2017-03-06"],
)
def test_malformed_days_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--days"):
        parse_days(text)


def test_day_whose_records_are_all_within_the_pin_is_clean() -> None:
    assert dirty_days(reach({MONDAY: 10}), published(MONDAY), []) == set()


def test_day_with_a_record_beyond_the_pin_is_dirty() -> None:
    assert dirty_days(reach({MONDAY: 10, TUESDAY: 11}), published(MONDAY, TUESDAY), []) == {TUESDAY}


def test_day_with_records_in_a_partition_that_was_not_pinned_is_dirty() -> None:
    assert dirty_days(Reach(1, NOW, {MONDAY: {0: 10, 1: 1}}), published(MONDAY), []) == {MONDAY}


def test_day_never_built_is_dirty_also_when_nothing_happened_on_it() -> None:
    assert dirty_days(reach({MONDAY: 10, WEDNESDAY: 9}), published(MONDAY), []) == {TUESDAY, WEDNESDAY}


def test_day_published_before_it_had_ended_is_dirty_once_more_is_covered() -> None:
    noon, one = datetime(2017, 3, 6, 12, tzinfo=UTC), datetime(2017, 3, 6, 13, tzinfo=UTC)

    assert dirty_days(reach({MONDAY: 10}, covered_until=one), published(MONDAY, covered_until=noon), []) == {MONDAY}
    assert dirty_days(reach({MONDAY: 10}, covered_until=noon), published(MONDAY, covered_until=noon), []) == set()


def test_day_of_an_earlier_definition_is_dirty() -> None:
    assert dirty_days(reach({MONDAY: 10}), published(MONDAY, epoch=0), []) == {MONDAY}


def test_conflict_makes_the_day_of_its_first_copy_dirty_too() -> None:
    days = published(MONDAY, TUESDAY, WEDNESDAY)

    assert dirty_days(reach({MONDAY: 5, WEDNESDAY: 11}), days, [(WEDNESDAY, MONDAY)]) == {MONDAY, WEDNESDAY}


def test_conflict_that_both_generations_know_makes_nothing_dirty() -> None:
    assert dirty_days(reach({MONDAY: 5, TUESDAY: 10}), published(MONDAY, TUESDAY), [(TUESDAY, MONDAY)]) == set()


def test_empty_master_has_no_dirty_days() -> None:
    assert dirty_days(reach({}), {}, []) == set()
