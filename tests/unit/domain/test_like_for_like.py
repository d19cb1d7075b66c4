"""Fiscal weeks as the National Retail Federation has published them, and like for like."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

import pytest

from tally.time.fiscal import WEEK, FiscalDay, fiscal_day, fiscal_year_start, like_for_like
from tally.time.holidays import COUNTRIES, holiday_names, missing_reason, subdivisions

SLOVAKIA = partial(holiday_names, "SK", None)
BEGINS = {
    2012: "2012-01-29",
    2013: "2013-02-03",
    2016: "2016-01-31",
    2017: "2017-01-29",
    2018: "2018-02-04",
    2020: "2020-02-02",
    2023: "2023-01-29",
    2024: "2024-02-04",
    2025: "2025-02-02",
    2026: "2026-02-01",
}


@pytest.mark.parametrize(("year", "begins"), BEGINS.items())
def test_fiscal_years_begin_as_published(year: int, begins: str) -> None:
    assert fiscal_year_start(year).isoformat() == begins


def test_years_of_53_weeks_are_those_that_are_published() -> None:
    begins = {year: fiscal_year_start(year) for year in range(2006, 2028)}

    long = [year for year in range(2006, 2027) if begins[year + 1] - begins[year] == 53 * WEEK]
    assert long == [2006, 2012, 2017, 2023]


@pytest.mark.parametrize(
    ("day", "fiscal"),
    [
        ("2024-02-04", FiscalDay(2024, 1, 1, 1)),
        ("2024-02-29", FiscalDay(2024, 1, 1, 4)),
        ("2024-03-03", FiscalDay(2024, 1, 2, 5)),
        ("2024-04-06", FiscalDay(2024, 1, 2, 9)),
        ("2024-04-07", FiscalDay(2024, 1, 3, 10)),
        ("2024-05-04", FiscalDay(2024, 1, 3, 13)),
        ("2024-05-05", FiscalDay(2024, 2, 4, 14)),
        ("2025-02-01", FiscalDay(2024, 4, 12, 52)),
        # The 53rd week is of January.
        ("2024-01-28", FiscalDay(2023, 4, 12, 53)),
        ("2024-02-03", FiscalDay(2023, 4, 12, 53)),
        ("2026-01-31", FiscalDay(2025, 4, 12, 52)),
        ("2026-11-26", FiscalDay(2026, 4, 10, 43)),
        ("9999-12-31", FiscalDay(9999, 4, 11, 48)),
    ],
)
def test_a_day_has_its_fiscal_year_quarter_period_and_week(day: str, fiscal: FiscalDay) -> None:
    assert fiscal_day(date.fromisoformat(day)) == fiscal


@pytest.mark.parametrize(
    ("day", "like"),
    [
        ("2026-11-26", "2025-11-27"),
        # After a year of 53 weeks the same week is 371 days ago.
        ("2024-11-28", "2023-11-23"),
        ("2024-02-29", "2023-02-23"),
        ("2023-12-31", "2023-01-01"),
    ],
)
def test_a_day_is_like_that_of_the_same_week_and_weekday(day: str, like: str) -> None:
    found = like_for_like(date.fromisoformat(day), lambda _: ())

    assert str(found.day) == like
    assert found.reason == "the same week and weekday of the fiscal year before"


def test_the_53rd_week_has_none_in_the_year_before_and_says_so() -> None:
    assert like_for_like(date(2024, 1, 31), lambda _: ()) == (
        date(2023, 2, 1),
        "364 days earlier, for the fiscal year before had no 53rd week",
    )


@pytest.mark.parametrize(
    ("day", "like", "because"),
    [
        ("2026-04-03", "2025-04-18", "Good Friday of the year before"),
        ("2026-04-06", "2025-04-21", "Easter Monday of the year before"),
        ("2025-04-21", "2024-04-01", "Easter Monday of the year before"),
        ("2026-12-24", "2025-12-24", "Christmas Eve of the year before"),
        (
            "2026-04-17",
            "2025-04-11",
            "2025-04-18 was Good Friday: the nearest earlier Friday that was no holiday",
        ),
        # A holiday of 2025 that the country has given up: an ordinary day now.
        (
            "2026-05-07",
            "2025-04-24",
            "2025-05-08 was Day of Victory over Fascism:"
            " the nearest earlier Thursday that was no holiday",
        ),
        ("2026-05-08", "2025-05-09", "the same week and weekday of the fiscal year before"),
    ],
)
def test_a_holiday_is_like_itself_and_an_ordinary_day_like_none(
    day: str, like: str, because: str
) -> None:
    found = like_for_like(date.fromisoformat(day), SLOVAKIA)

    assert (str(found.day), found.reason) == (like, because)


def of(*named: str, name: str = "Eid") -> Callable[[date], Sequence[str]]:
    days = {date.fromisoformat(one) for one in named}
    return lambda day: (name,) if day in days else ()


def test_the_second_day_of_a_feast_is_like_its_second_day() -> None:
    eid = of("2025-03-30", "2025-03-31", "2026-03-20", "2026-03-21")

    assert like_for_like(date(2026, 3, 21), eid).day == date(2025, 3, 31)


def test_a_day_of_a_feast_that_was_shorter_is_like_none() -> None:
    eid = of("2025-03-30", "2026-03-20", "2026-03-21")

    assert like_for_like(date(2026, 3, 21), eid) == (
        None,
        "Eid: the year before had no such holiday",
    )


def test_of_a_feast_that_comes_twice_a_year_the_nearer_one_counts() -> None:
    # By the moon: eleven days earlier each year, so both ends of 2000 had one.
    eid = of("1999-01-19", "2000-01-08", "2000-12-27", "2001-12-16")

    assert like_for_like(date(2000, 12, 27), eid).day == date(2000, 1, 8)
    assert like_for_like(date(2001, 12, 16), eid).day == date(2000, 12, 27)


def test_a_holiday_of_every_week_is_like_that_of_the_same_week() -> None:
    found = like_for_like(date(2026, 11, 29), lambda day: ("Sunday",) if day.weekday() == 6 else ())

    assert found == (date(2025, 11, 30), "Sunday of the year before")


def test_a_weekday_that_was_always_a_holiday_is_like_none() -> None:
    found = like_for_like(date(2026, 11, 26), lambda day: ("Rest",) if day.year < 2026 else ())

    assert found == (None, "2025-11-27 was Rest, and so was that weekday for 10 weeks before")


@pytest.mark.parametrize("language", ["de_DE.UTF-8", "sk_SK", "C"])
def test_holidays_are_in_english_wherever_the_process_runs(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", language)
    holiday_names.__globals__["_load_year"].cache_clear()

    assert holiday_names("SK", None, date(2026, 4, 6)) == ("Easter Monday",)


def test_a_part_of_a_country_has_holidays_of_its_own() -> None:
    epiphany = date(2026, 1, 6)

    assert holiday_names("DE", "BY", epiphany) == ("Epiphany",)
    assert holiday_names("DE", None, epiphany) == holiday_names("DE", "BE", epiphany) == ()
    assert "BY" in subdivisions("DE") and "Bayern" in subdivisions("DE")


def test_a_feast_by_the_moon_is_the_same_before_it_is_proclaimed() -> None:
    found = like_for_like(date(2028, 2, 26), partial(holiday_names, "AE", None))

    assert found.reason == "Eid al-Fitr of the year before"


@pytest.mark.parametrize(
    ("country", "first", "last", "why"),
    [
        (None, 2026, 2026, "the stores file names no `country`"),
        ("ZZ", 2026, 2026, "no table of holidays knows ZZ"),
        ("SK", 1992, 2026, "the holidays of SK are known from 1993 to 2100"),
        ("SK", 2026, 2101, "the holidays of SK are known from 1993 to 2100"),
    ],
)
def test_days_without_known_holidays_are_told_as_such(
    country: str | None, first: int, last: int, why: str
) -> None:
    told = missing_reason(country, date(first, 1, 1), date(last, 12, 31))

    assert told is not None and told.startswith(why)
    assert holiday_names(country, None, date(1992, 1, 1)) == ()


def test_every_country_has_a_table_of_holidays() -> None:
    day = date(2026, 11, 26)

    assert [one for one in sorted(COUNTRIES) if missing_reason(one, day, day)] == []


def test_a_known_country_leaves_nothing_to_tell() -> None:
    assert missing_reason("SK", date(2026, 1, 1), date(2026, 12, 31)) is None
    assert subdivisions("ZZ") == ()
