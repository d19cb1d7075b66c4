"""The retail calendar of 4-5-4 weeks (National Retail Federation).

A year has four quarters of periods of 4, 5 and 4 weeks, each from Sunday to Saturday, and ends on
the Saturday that is nearest to 31 January. It is named by the year in which it begins. By it
a day is compared with the like day of the year before.
"""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from tally.time.windows import days_until

WEEK = timedelta(days=7)
# Every fifth or sixth year has one week more.
_WEEKS_A_YEAR, _WEEKS_A_QUARTER = 52, 13
_SATURDAY = 5


class FiscalDay(NamedTuple):
    """Year, quarter (1 to 4), period (1 to 12) and week (1 to 52, or 53) that a day lies in."""

    year: int
    quarter: int
    period: int
    week: int


def fiscal_year_start(year: int) -> date:
    """The Sunday on which the fiscal year begins.

    >>> fiscal_year_start(2023)
    datetime.date(2023, 1, 29)
    """
    end_of_january = date(year, 1, 31)
    # The nearest Saturday lies from three days before to three days after.
    shift = (_SATURDAY - end_of_january.weekday() + 3) % 7 - 3
    return end_of_january + timedelta(days=shift + 1)


def fiscal_day(day: date) -> FiscalDay:
    """The place of a day in the fiscal calendar. Raises ValueError before February of year 1."""
    begins = fiscal_year_start(day.year)
    year = day.year if day >= begins else day.year - 1
    week = (day - fiscal_year_start(year)) // WEEK
    # A 53rd week is the last of January's period, and so of the last quarter.
    regular = min(week, _WEEKS_A_YEAR - 1)
    quarter, of_quarter = divmod(regular, _WEEKS_A_QUARTER)
    # After 4 and 9 weeks of a quarter its second and its third period begin.
    period = 3 * quarter + (of_quarter >= 4) + (of_quarter >= 9)
    return FiscalDay(year, quarter + 1, period + 1, week + 1)


def same_day_last_year(day: date) -> date:
    """The day of the same week and weekday of the fiscal year before: 364 or 371 days earlier.

    A 53rd week has no counterpart in a year of 52; it counts as the week after: 364 days earlier.

    >>> same_day_last_year(date(2026, 11, 26)), same_day_last_year(date(2024, 11, 28))
    (datetime.date(2025, 11, 27), datetime.date(2023, 11, 23))
    """
    year = fiscal_day(day).year
    return fiscal_year_start(year - 1) + (day - fiscal_year_start(year))


# The function that returns the holidays of a day by name, none on an ordinary day.
HolidayLookup = Callable[[date], Sequence[str]]
# A feast moves by at most a month from year to year (Easter), and lasts less than two weeks.
_REACH, _LASTS = timedelta(days=45), timedelta(days=14)
_TRIES = 10


class ComparableDay(NamedTuple):
    """The day that another one is compared with, None if there is none, and why, as a sentence."""

    day: date | None
    reason: str


def like_for_like(day: date, names_of: HolidayLookup) -> ComparableDay:
    """The day of the year before that this one is compared with.

    It is the day of the same week and weekday of the 4-5-4 calendar. But a holiday is compared with
    the same holiday, on any day; and an ordinary day is never compared with a holiday, but with the
    nearest earlier day of its weekday that was none.
    """
    holidays = names_of(day)
    if holidays:
        return _same_holiday(day, holidays, names_of)
    before = same_day_last_year(day)
    then = names_of(before)
    if not then:
        if fiscal_day(day).week <= _WEEKS_A_YEAR:
            return ComparableDay(before, "the same week and weekday of the fiscal year before")
        reason = "364 days earlier, for the fiscal year before had no 53rd week"
        return ComparableDay(before, reason)
    ordinary = (before - weeks * WEEK for weeks in range(1, _TRIES + 1))
    found = next((earlier for earlier in ordinary if not names_of(earlier)), None)
    reason = f"{before} was {then[0]}"
    if found is None:
        return ComparableDay(None, f"{reason}, and so was that weekday for {_TRIES} weeks before")
    return ComparableDay(found, f"{reason}: the nearest earlier {found:%A} that was no holiday")


def _same_holiday(day: date, holidays: Sequence[str], names_of: HolidayLookup) -> ComparableDay:
    around = same_day_last_year(day)
    for name in holidays:
        # In a feast of several days the second is like the second: they differ as weekdays do.
        place = _holiday_day_number(day, name, names_of)
        same = [
            candidate
            for candidate in days_until(around - _REACH, around + _REACH)
            if name in names_of(candidate)
            and _holiday_day_number(candidate, name, names_of) == place
        ]
        if same:
            nearest = min(same, key=lambda candidate: abs(candidate - around))
            return ComparableDay(nearest, f"{name} of the year before")
    return ComparableDay(None, f"{holidays[0]}: the year before had no such holiday")


def _holiday_day_number(day: date, name: str, names_of: HolidayLookup) -> int:
    """The place of the day in its feast, 0 for the first."""
    return sum(name in names_of(earlier) for earlier in days_until(day - _LASTS, day))
