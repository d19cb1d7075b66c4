"""What is usual in a window, of days as a snapshot has them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import pairwise

import pytest

from alerting.rules.conditions import matches_condition, threshold_value
from alerting.rules.rule import AgainstBaseline
from tally.alerts.baseline import (
    BaselineSample,
    EarlierDay,
    WindowBaseline,
    build_snapshot,
    compute_baselines,
    earlier_dates,
    first_served_day,
    parse_snapshot,
)
from tests.support.evaluation.baselines import serving

TEN, NINE = 10 * 60, 9 * 60
LESS = AgainstBaseline("same_weekday_4w", "<= -30 %")
NO_DAY = EarlierDay((), is_complete=False, has_events=False)
CLOSED = EarlierDay(((TEN, BaselineSample(0)),), has_events=False)


def day(*values: int, clock: int = TEN) -> EarlierDay:
    """A day with values from a clock on, a quarter hour after the other."""
    return EarlierDay([(clock + 15 * at, BaselineSample(one)) for at, one in enumerate(values)])


def of_four(*earlier: EarlierDay, clock: int = TEN) -> WindowBaseline | None:
    """What is usual at a clock of a day."""
    return compute_baselines("same_weekday_4w", [(7, clock)], earlier).get(7)


def test_mean_and_variance_are_those_of_the_weekday_at_that_clock() -> None:
    assert of_four(*map(day, (8, 9, 11, 14, 100))) == WindowBaseline(
        Fraction(21, 2), Fraction(7), 4
    )
    assert of_four(*map(day, (8, 9, 11, 14, 100)), clock=TEN + 15) is None


def test_an_hour_of_the_week_is_of_all_its_quarter_hours() -> None:
    earlier = [day(1, 2, 3, 6), *[day(3, 3, 3, 3)] * 7, day(9)]

    found = compute_baselines("hour_of_week", [(1, TEN), (2, TEN + 45), (3, TEN + 60)], earlier)

    # Of 32 quarter hours: 14 squared away from 3, of 31.
    assert found == dict.fromkeys((1, 2), WindowBaseline(Fraction(3), Fraction(14, 31), 8))


def test_a_share_is_that_of_all_days_together_and_no_mean_of_shares() -> None:
    shares = [(1, 10), (9, 10), (0, 980), (0, 0)]
    earlier = [EarlierDay([(TEN, BaselineSample(*one) if one[1] else None)]) for one in shares]

    usual = of_four(*earlier, day(1))

    assert usual is not None and (usual.mean, usual.days) == (Fraction(10, 1000), 3)


@pytest.mark.parametrize(
    ("earlier", "days"),
    [
        # Closed on a holiday, of one there is no generation, of one not the whole.
        ((8, CLOSED, 8, 8, 8), 3),
        ((8, NO_DAY, 8, 8, 8), 3),
        ((8, EarlierDay([(TEN, BaselineSample(99))], is_complete=False), CLOSED, 8, 8), 2),
        ((8, CLOSED, CLOSED, NO_DAY, 8), None),
        # The oldest was closed, and the one before says that the store was there.
        ((8, 8, 8, CLOSED, 8), 3),
        # Younger than the weeks.
        ((8, 8, 8, CLOSED, CLOSED), None),
        ((8, 8, 8, NO_DAY, NO_DAY), None),
        ((CLOSED, CLOSED, CLOSED, CLOSED, CLOSED), None),
        ((NO_DAY, NO_DAY, NO_DAY, NO_DAY, NO_DAY), None),
    ],
)
def test_days_that_say_nothing_are_left_out_and_too_few_say_nothing(
    earlier: Sequence[EarlierDay | int], days: int | None
) -> None:
    usual = of_four(*(day(one) if isinstance(one, int) else one for one in earlier))

    assert (usual and usual.days) == days
    assert usual is None or usual.mean == 8


def test_hours_that_clocks_leave_out_or_show_twice_are_left_out() -> None:
    two = 2 * 60
    twice = EarlierDay(
        [(two, BaselineSample(5)), (two, BaselineSample(70)), (TEN, BaselineSample(8))]
    )
    without = EarlierDay([(two + 60, BaselineSample(9)), (TEN, BaselineSample(8))])
    plain = EarlierDay([(two, BaselineSample(4)), (TEN, BaselineSample(8))])

    assert of_four(twice, plain, without, plain, plain, clock=two) == WindowBaseline(4, 0, 2)
    assert of_four(twice, plain, without, plain, plain) == WindowBaseline(8, 0, 4)
    # The day that is evaluated: which of the two hours is the usual one nobody knows.
    windows = [(1, two), (2, two), (3, TEN)]
    assert [*compute_baselines("same_weekday_4w", windows, [plain] * 5)] == [3]


@pytest.mark.parametrize(
    ("evaluated", "first_day", "newest"),
    [
        ("2026-11-24", "2026-11-24", "2026-11-17"),
        ("2026-11-24", "2026-11-18", "2026-11-17"),
        # Nobody has made another one for weeks: what was usual then.
        ("2026-11-24", "2026-11-17", "2026-11-10"),
        ("2027-03-02", "2026-11-18", "2026-11-17"),
        ("2024-03-07", "2024-03-01", "2024-02-29"),
    ],
)
def test_the_days_are_the_same_weekdays_before_the_snapshot(
    evaluated: str, first_day: str, newest: str
) -> None:
    dates = earlier_dates(
        "same_weekday_4w", date.fromisoformat(evaluated), date.fromisoformat(first_day)
    )

    assert (dates[0].isoformat(), len(dates)) == (newest, 5)
    assert {(one - two).days for one, two in pairwise(dates)} == {7}


@pytest.mark.parametrize(
    ("evaluated", "left"),
    [("0001-01-01", 0), ("0001-01-09", 0), ("0001-01-10", 1), ("0001-03-01", 5)],
)
def test_before_the_first_days_of_the_calendar_there_are_none(evaluated: str, left: int) -> None:
    day = date.fromisoformat(evaluated)

    assert len(earlier_dates("same_weekday_4w", day, day)) == left
    made_at = datetime(2026, 11, 24, tzinfo=UTC)
    assert build_snapshot(day, made_at, {"sales": {}}).days == {"sales": ()}
    of = {date.min: serving(date.min, 1)}
    days = build_snapshot(day, made_at, {"sales": of}).days["sales"]
    assert [one.day for one in days] == [date.min][: evaluated != "0001-01-01"]


@pytest.mark.parametrize(
    ("condition", "usual", "value", "expected"),
    [
        (LESS, WindowBaseline(10, 4), 7, (7.0, True)),
        (
            LESS,
            WindowBaseline(Fraction(31, 3), 4),
            7,
            (7.233333, True),
        ),
        (AgainstBaseline("hour_of_week", sigmas=2.5), WindowBaseline(10, 4), 5, (5.0, True)),
        (AgainstBaseline("hour_of_week", sigmas=2.5), WindowBaseline(10, 4), 15, (15.0, True)),
        (AgainstBaseline("hour_of_week", sigmas=0.1), WindowBaseline(10, 100), 9, (9.0, True)),
        (AgainstBaseline("hour_of_week", sigmas=3.0), WindowBaseline(10, 4), 16, (16.0, True)),
        (
            AgainstBaseline("hour_of_week", sigmas=3.0),
            WindowBaseline(10, 2),
            14,
            (14.242641, False),
        ),
        (AgainstBaseline("hour_of_week", sigmas=3.0), WindowBaseline(10, 0), 99, (None, None)),
        (LESS, WindowBaseline(0, 0), 0, (None, None)),
        (LESS, None, 0, (None, None)),
    ],
)
def test_distance_is_compared_exactly_and_its_border_told_in_the_metric_s_unit(
    condition: AgainstBaseline,
    usual: WindowBaseline | None,
    value: int,
    expected: tuple[float | None, bool | None],
) -> None:
    assert (
        threshold_value(condition, value, usual),
        matches_condition(condition, value, usual),
    ) == expected


def test_numbers_of_deviations_are_what_was_written_and_no_float_beside_it() -> None:
    # 0.1 in binary is a little more than a tenth, and 3.3 a little less.
    exact = WindowBaseline(0, 10**40)
    for sigmas, tenths in ((0.1, 1), (3.3, 33)):
        edge, rule = tenths * 10**19, AgainstBaseline("hour_of_week", sigmas=sigmas)
        assert [matches_condition(rule, edge + more, exact) for more in (-1, 0)] == [False, True]


def test_snapshot_serves_days_that_have_begun_nowhere() -> None:
    # Ten hours past midnight the next day begins on Kiritimati.
    for hour, first in ((0, 25), (7, 25), (8, 26), (23, 26)):
        made_at = datetime(2026, 11, 24, hour, 0, tzinfo=UTC)
        assert first_served_day(made_at) == date(2026, 11, first)


def test_snapshot_has_the_whole_days_of_its_weeks_and_is_stored_as_the_same_bytes() -> None:
    days = [date.fromordinal(date(2026, 9, 1).toordinal() + number) for number in range(85)]
    of = {one: serving(one, number + 1) for number, one in enumerate(days)}
    of[days[70]] = serving(days[70], 71, covered_until=f"{days[70]}T12:00")
    first, made_at = date(2026, 11, 25), datetime(2026, 11, 24, 0, 40, tzinfo=UTC)

    made = build_snapshot(first, made_at, {"sales": dict(reversed(of.items()))})

    found = [one.day for one in made.days["sales"]]
    assert (len(found), found[0], found[-1]) == (63, date(2026, 9, 22), days[-1])
    assert days[70] not in found
    assert made.days["sales"][0].full_generation.covers(datetime(2026, 9, 22, 23, 45, tzinfo=UTC))
    assert made == parse_snapshot(first, made_at, made.days_text)
    assert made.days_text == build_snapshot(first, made_at, {"sales": of}).days_text
    assert (made.number, made.days_text[:32]) == (20_782, '{"sales":[["2026-09-22",22,4],["')
