"""Opening hours as they are told, and what cannot be one is named with its fix."""

from datetime import date
from importlib.resources import files
from typing import Any

import pytest

from tally.time.holidays import COUNTRIES
from tally.time.opening_hours import ClockSpan, parse_opening_hours

MONDAY, FRIDAY, SATURDAY, SUNDAY = (date(2026, 11, day) for day in (23, 27, 28, 29))
SHOP = {"mon-fri": "08:00-20:00", "sat": ["09:00-13:00", "14:00-18:00"], "sun": "closed"}
EVERY_DAY = "mon-sun"


def test_a_range_of_weekdays_a_list_of_spans_and_a_closed_day() -> None:
    hours = parse_opening_hours(SHOP)

    assert hours.spans(MONDAY) == hours.spans(FRIDAY) == (ClockSpan(480, 1200),)
    assert hours.spans(SATURDAY) == (ClockSpan(540, 780), ClockSpan(840, 1080))
    assert hours.spans(SUNDAY) == ()


def test_what_ends_after_midnight_ends_on_the_next_day() -> None:
    bar = parse_opening_hours({EVERY_DAY: "18:00-02:00"})

    assert bar.spans(SUNDAY) == (ClockSpan(18 * 60, 26 * 60),)


@pytest.mark.parametrize("told", ["00:00-24:00", "00:00-00:00"])
def test_a_store_that_never_closes_is_open_for_the_whole_day(told: str) -> None:
    hours = parse_opening_hours({EVERY_DAY: told})

    assert hours.spans(MONDAY) == (ClockSpan(0, 1440),)
    assert hours.to_mapping() == {EVERY_DAY: "00:00-24:00"}


def test_a_range_may_go_over_the_end_of_the_week() -> None:
    hours = parse_opening_hours({"sat-mon": "closed", "tue-fri": "08:00-20:00"})

    assert [bool(hours.spans(day)) for day in (MONDAY, FRIDAY, SATURDAY, SUNDAY)] == [
        False,
        True,
        False,
        False,
    ]


def test_a_holiday_is_as_its_weekday_unless_its_hours_are_told() -> None:
    closed = parse_opening_hours({**SHOP, "holidays": "closed"})

    assert closed.spans(MONDAY, is_holiday=True) == ()
    assert closed.spans(MONDAY) == parse_opening_hours(SHOP).spans(MONDAY, is_holiday=True)


@pytest.mark.parametrize(
    "told", [SHOP, {EVERY_DAY: "18:00-02:00", "holidays": "closed"}, {EVERY_DAY: "00:00-24:00"}]
)
def test_what_is_told_again_is_the_same_hours(told: dict[str, Any]) -> None:
    assert parse_opening_hours(told).to_mapping() == told


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ("08:00-20:00", "hours by weekday are wanted, e.g. {mon-fri"),
        ({}, "hours by weekday are wanted"),
        ({"monday": "08:00-20:00"}, "'monday' is no weekday, no range of them and not holidays"),
        ({"mon-": "08:00-20:00"}, "'mon-' is no weekday"),
        ({"mon-fri": "closed", "fri": "closed"}, "fri is given twice"),
        ({"mon-sat": "closed"}, "sun is missing; write `sun: closed` if it is"),
        ({EVERY_DAY: "8-20"}, "mon-sun: '8-20' is no span of the clock, e.g. 08:00-20:00"),
        ({EVERY_DAY: "08:00-25:00"}, "is no span of the clock"),
        ({EVERY_DAY: "24:00-02:00"}, "is no span of the clock"),
        ({EVERY_DAY: "08:00-20:00\n"}, "is no span of the clock"),
        ({EVERY_DAY: ""}, "is no span of the clock, e.g. 08:00-20:00, or closed"),
        (
            {EVERY_DAY: ["12:00-14:00", "08:00-13:00"]},
            "12:00-14:00 begins before 08:00-13:00 has ended",
        ),
        (
            {"mon": "03:00-20:00", "tue-sat": "closed", "sun": "20:00-04:00"},
            "sun: 20:00-04:00 ends after mon: 03:00-20:00 has begun",
        ),
    ],
)
def test_what_is_no_hours_is_named_with_its_fix(told: object, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        parse_opening_hours(told)

    assert wrong in str(refused.value)


def test_countries_are_those_of_the_time_zone_database() -> None:
    table = (files("tzdata.zoneinfo") / "iso3166.tab").read_text("utf-8")
    codes = {line.split("\t")[0] for line in table.splitlines() if not line.startswith("#")}

    assert codes == COUNTRIES
