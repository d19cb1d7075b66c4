"""Visits are a reading of a set: no order, no duplicate, no cut of the sightings changes them.

A late sighting never splits or shrinks one.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.people.visits import (
    MINUTE_SECONDS,
    MinuteSignals,
    PeriodHours,
    Presence,
    VisitRules,
    read_presences,
    static_days,
)
from tests.controls.layers.visits_with_a_longest import presences_of_a_longest
from tests.laws.algebra.test_merge_controls import SEARCH

Reading = Callable[[MinuteSignals, VisitRules], list[Presence]]
DAY = PeriodHours(0, 1440)
RULES = VisitRules(gap_minutes=5, min_stay_minutes=3, static_minutes=60, closed_minutes=10)
DAY_SECONDS = 90 * 60

sightings = st.lists(st.tuples(st.integers(0, DAY_SECONDS), st.integers(-92, -70)), max_size=40)
rules = st.builds(
    VisitRules,
    enter_dbm=st.integers(-85, -75),
    stay_dbm=st.integers(-90, -80),
    gap_minutes=st.integers(1, 20),
    min_stay_minutes=st.integers(1, 10),
)


def strongest_by_minute(sightings: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The strongest signal (dBm) by minute, of sightings (seconds since 1970 in UTC, and dBm)."""
    minutes: dict[int, int] = {}
    for seconds, dbm in sightings:
        minute = seconds // MINUTE_SECONDS
        minutes[minute] = max(dbm, minutes.get(minute, dbm))
    return minutes


def holds_what_was(before: list[Presence], after: list[Presence]) -> bool:
    """Whether each visit lies within one that is there now."""
    visits = [one for one in after if one.is_visit]
    return all(
        any(now.first <= was.first and was.last <= now.last for now in visits)
        for was in before
        if was.is_visit
    )


def check_late_sighting(read: Reading, come: list[tuple[int, int]], by: VisitRules) -> None:
    for arrived in range(1, len(come)):
        before, after = (read(strongest_by_minute(come[:n]), by) for n in (arrived, arrived + 1))
        assert holds_what_was(before, after)


@given(sightings, rules, st.randoms())
def test_any_order_and_any_duplicates_give_the_same_visits(
    come: list[tuple[int, int]], by: VisitRules, random: Random
) -> None:
    again = [*come, *come[: len(come) // 2]]
    random.shuffle(again)

    assert read_presences(strongest_by_minute(again), by) == read_presences(
        strongest_by_minute(come), by
    )


@given(sightings, st.lists(st.booleans(), min_size=40, max_size=40))
def test_any_split_of_the_sightings_is_one_set_of_minutes(
    come: list[tuple[int, int]], left: list[bool]
) -> None:
    """Two lots, heard apart and joined minute by minute by the stronger signal."""
    one = strongest_by_minute(
        sighting for sighting, is_left in zip(come, left, strict=False) if is_left
    )
    other = strongest_by_minute(
        sighting for sighting, is_left in zip(come, left, strict=False) if not is_left
    )
    joined = strongest_by_minute(
        (60 * minute, dbm) for lot in (one, other) for minute, dbm in lot.items()
    )

    assert joined == strongest_by_minute(come)


@given(sightings, rules)
def test_late_sighting_never_splits_or_shrinks_a_visit(
    come: list[tuple[int, int]], by: VisitRules
) -> None:
    check_late_sighting(read_presences, come, by)


def test_with_a_longest_visit_a_late_sighting_splits_one() -> None:
    @SEARCH
    @given(sightings)
    def search(come: list[tuple[int, int]]) -> None:
        check_late_sighting(presences_of_a_longest(20), come, RULES)

    with pytest.raises(AssertionError):
        search()


@given(sightings, rules)
def test_presences_are_apart_and_ordered_and_cover_each_minute_with_signal_enough(
    come: list[tuple[int, int]], by: VisitRules
) -> None:
    minutes = strongest_by_minute(come)
    found = read_presences(minutes, by)

    for one, other in pairwise(found):
        assert other.first - one.last > by.gap_minutes
    strong = {minute for minute, dbm in minutes.items() if dbm >= by.stay_dbm}
    ends = {one.last for one in found}
    assert ends <= strong
    for minute in strong:
        # Only the weak minutes before a visit's first strong one lie in none.
        within = [one for one in found if one.first <= minute <= one.last]
        assert within or minutes[minute] < by.enter_dbm


@pytest.mark.parametrize(
    ("late", "read"),
    [
        ([], [(0, 5), (30, 40)]),
        ([3], [(0, 5), (30, 40)]),
        ([17], [(0, 17), (30, 40)]),
        ([18], [(0, 40)]),
        ([56], [(0, 5), (30, 40), (56, 56)]),
    ],
    ids=["none", "into", "behind", "between", "beyond"],
)
def test_late_sighting_prolongs_joins_or_stands_alone(
    late: list[int], read: list[tuple[int, int]]
) -> None:
    minutes = dict.fromkeys([0, 5, 30, 40, *late], -60)
    by = VisitRules(gap_minutes=15 if late != [17] else 12)

    assert [(one.first, one.last) for one in read_presences(minutes, by)] == read


def test_visit_begins_with_its_first_strong_signal_and_ends_with_its_last_of_any() -> None:
    assert read_presences({0: -84, 3: -60, 8: -84}, RULES) == [Presence(3, 8, is_visit=True)]


def test_strong_signal_that_is_too_short_makes_a_pass_from_where_it_was_first_heard() -> None:
    assert read_presences({0: -84, 3: -60, 4: -84}, RULES) == [Presence(0, 4, is_visit=False)]


@pytest.mark.parametrize("dbm", [-80, -85, -86])
def test_signal_at_each_limit(dbm: int) -> None:
    found = read_presences({0: dbm, 1: dbm}, VisitRules())

    assert [one.is_visit for one in found] == {-80: [True], -85: [False], -86: []}[dbm]


def test_device_that_is_always_there_is_none_of_a_customer() -> None:
    stays = read_presences(dict.fromkeys(range(RULES.static_minutes), -60), RULES)
    leaves = read_presences(dict.fromkeys(range(RULES.static_minutes - 1), -60), RULES)

    assert (static_days(stays, RULES, DAY), static_days(leaves, RULES, DAY)) == ({0}, set())


def test_who_comes_each_day_is_a_customer_and_who_stays_one_day_is_none_of_it() -> None:
    week = PeriodHours(0, 7 * 1440)
    visits = [Presence(day * 1440 + 600, day * 1440 + 600 + 44, is_visit=True) for day in range(7)]
    long = Presence(3 * 1440 + 700, 3 * 1440 + 760, is_visit=True)

    # 45 minutes on each of 7 days are 315 in all, and 60 are staff.
    assert static_days(visits, RULES, week) == set()
    assert static_days([*visits, long], RULES, week) == {3}


def test_visit_over_the_border_of_two_days_is_of_both() -> None:
    night = Presence(1440 - 50, 1440 + 20, is_visit=True)

    # 50 minutes before and 21 behind.
    assert static_days([night], RULES, PeriodHours(0, 2880)) == set()
    assert static_days([night], RULES, PeriodHours(0, 1440)) == {0}


@pytest.mark.parametrize(("minutes", "days"), [(1380, [0, 0]), (1500, [0, 0]), (2820, [0, 1])])
def test_days_of_a_period_are_as_many_as_it_has_where_clocks_change(
    minutes: int, days: list[int]
) -> None:
    period = PeriodHours(100, 100 + minutes)

    assert [period.day(100), period.day(period.end - 1)] == days


@pytest.mark.parametrize(
    ("open_at", "static"),
    [
        (None, False),
        ([], True),
        ([(20, 50)], True),
        ([(19, 50)], False),
        ([(0, 9), (30, 40)], True),
    ],
)
def test_long_visit_wholly_outside_the_opening_hours(
    open_at: list[tuple[int, int]] | None, static: bool
) -> None:
    visit = read_presences(dict.fromkeys(range(10, 20), -60), RULES)

    assert bool(static_days(visit, RULES, DAY._replace(open_at=open_at))) is static
