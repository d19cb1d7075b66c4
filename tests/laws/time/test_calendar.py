"""Local days cover all time, each instant once; days that are compared are like each other."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from tally.time.day_clock import DayClock, LocalDay, local_day, local_day_at
from tally.time.fiscal import WEEK, fiscal_day, fiscal_year_start, like_for_like
from tally.time.opening_hours import ClockSpan, open_spans
from tally.time.windows import WINDOW
from tests.laws.time.test_key_periods import changes, instants
from tests.support.twin.day_clocks import ZONES, starts

# Also a zone that has left out a day, and one whose clocks go back over midnight.
odd_zones = st.sampled_from((*ZONES, "Pacific/Apia", "America/Havana")).map(ZoneInfo)
days = st.dates(date(1973, 1, 1), date(2168, 12, 31))
names = st.sampled_from(("Easter", "Eid", "Founding"))
# Close together, so that feasts and the days that are asked for meet.
this_year = st.dates(date(2026, 11, 15), date(2026, 12, 12))
last_year = st.dates(date(2025, 11, 16), date(2025, 12, 13))
feasts = st.dictionaries(this_year | last_year, st.tuples(names))


@given(instants | changes, odd_zones, starts)
def test_each_instant_lies_in_one_local_day_and_the_next_begins_where_it_ends(
    instant: datetime, zone: ZoneInfo, day_starts: time
) -> None:
    clock = DayClock.from_zone(zone, day_starts)
    found = local_day_at(instant, clock)

    around = [local_day(found.day + timedelta(days=more), clock) for more in range(-2, 3)]
    assert [one for one in around if one.start <= instant < one.end] == [found]
    assert all(one.end == after.start for one, after in pairwise(around))


@given(st.integers(1973, 2168), odd_zones, starts)
def test_quarter_hours_of_the_days_of_a_year_are_those_of_the_year(
    year: int, zone: ZoneInfo, day_starts: time
) -> None:
    first = date(year, 1, 1)
    whole = [first + timedelta(days=more) for more in range((date(year + 1, 1, 1) - first).days)]
    clock = DayClock.from_zone(zone, day_starts)
    found = [local_day(day, clock) for day in whole]

    assert sum(one.quarter_hours for one in found) == (found[-1].end - found[0].start) // WINDOW


@given(days, odd_zones, st.integers(0, 1439), st.integers(1, 1440))
def test_a_span_begins_on_its_day_and_is_as_long_as_by_the_clock_but_for_its_changes(
    day: date, zone: ZoneInfo, opens: int, minutes: int
) -> None:
    local: LocalDay = local_day(day, DayClock.from_zone(zone))

    for span in open_spans(day, (ClockSpan(opens, opens + minutes),), zone):
        assert local.start <= span.start
        changed = abs((span.end - span.start) - timedelta(minutes=minutes))
        # Samoa went over a whole day.
        assert changed <= timedelta(hours=24)
        assert span.end.tzinfo is UTC


@given(days)
def test_a_fiscal_day_is_found_again_by_its_year_and_week(day: date) -> None:
    found = fiscal_day(day)

    begins = fiscal_year_start(found.year) + (found.week - 1) * WEEK
    assert begins <= day < begins + WEEK
    weeks = (fiscal_year_start(found.year + 1) - fiscal_year_start(found.year)) // WEEK
    assert 1 <= found.week <= weeks <= 53
    assert (found.quarter - 1) * 3 < found.period <= found.quarter * 3


@given(days)
def test_a_fiscal_year_ends_on_the_saturday_nearest_to_the_end_of_january(day: date) -> None:
    ends = fiscal_year_start(day.year) - timedelta(days=1)

    assert ends.strftime("%A") == "Saturday"
    assert abs((ends - date(day.year, 1, 31)).days) <= 3


def named(of: Mapping[date, Sequence[str]], day: date) -> Sequence[str]:
    return of.get(day, ())


@given(this_year, feasts)
def test_no_two_ordinary_days_of_a_week_are_compared_with_one_day_and_none_with_a_holiday(
    first: date, feasts: dict[date, tuple[str]]
) -> None:
    week = [first + timedelta(days=more) for more in range(7)]
    ordinary = [day for day in week if day not in feasts]
    found = [like_for_like(day, lambda day: named(feasts, day)).day for day in ordinary]

    told = [day for day in found if day is not None]
    assert len({*told}) == len(told)
    assert not {*told} & {*feasts}
    assert [
        day.weekday() for day, like in zip(ordinary, found, strict=True) if like is not None
    ] == [like.weekday() for like in told]


@given(this_year | days, feasts)
def test_a_day_is_compared_with_an_earlier_one_of_its_own_kind(
    day: date, feasts: dict[date, tuple[str]]
) -> None:
    like = like_for_like(day, lambda day: named(feasts, day))

    assert like.day is None or like.day < day
    assert like.day is None or named(feasts, like.day) == named(feasts, day)


@given(days)
def test_without_holidays_a_day_is_364_or_371_days_after_the_one_that_it_is_like(
    day: date,
) -> None:
    like = like_for_like(day, lambda _: ()).day

    assert like is not None and (day - like).days in (364, 371)
