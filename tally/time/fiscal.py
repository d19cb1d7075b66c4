"""The retail calendar of 4-5-4 weeks (National Retail Federation).

A year has four quarters of periods of 4, 5 and 4 weeks, each from Sunday to Saturday, and ends on
the Saturday that is nearest to 31 January. It is named by the year in which it begins.
"""

from datetime import date, timedelta
from typing import NamedTuple

WEEK = timedelta(days=7)
WEEKS_A_YEAR, _WEEKS_A_QUARTER, _PERIODS_A_QUARTER = 52, 13, 3
_SATURDAY = 5
# The weeks of a quarter after which its second and its third period begin.
_PERIODS_BEGIN = (4, 9)


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


def weeks_in_year(year: int) -> int:
    """The weeks of a fiscal year: 52, or 53 every five or six years.

    >>> [year for year in range(2010, 2026) if weeks_in_year(year) == 53]
    [2012, 2017, 2023]
    """
    return (fiscal_year_start(year + 1) - fiscal_year_start(year)) // WEEK


def fiscal_day(day: date) -> FiscalDay:
    """The place of a day in the fiscal calendar. Raises ValueError before February of year 1."""
    begins = fiscal_year_start(day.year)
    year = day.year if day >= begins else day.year - 1
    week = (day - fiscal_year_start(year)) // WEEK
    # A 53rd week is the last of January's period, and so of the last quarter.
    regular = min(week, WEEKS_A_YEAR - 1)
    quarter, of_quarter = divmod(regular, _WEEKS_A_QUARTER)
    period = _PERIODS_A_QUARTER * quarter + sum(of_quarter >= begun for begun in _PERIODS_BEGIN)
    return FiscalDay(year, quarter + 1, period + 1, week + 1)


def same_day_last_year(day: date) -> date:
    """The day of the same week and weekday of the fiscal year before: 364 or 371 days earlier.

    A 53rd week has no counterpart in a year of 52; it counts as the week after: 364 days earlier.

    >>> same_day_last_year(date(2026, 11, 26)), same_day_last_year(date(2024, 11, 28))
    (datetime.date(2025, 11, 27), datetime.date(2023, 11, 23))
    """
    year = fiscal_day(day).year
    return fiscal_year_start(year - 1) + (day - fiscal_year_start(year))
