"""Like for like: the day of the year before with which a day is compared."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from tally.time.fiscal import WEEK, WEEKS_A_YEAR, fiscal_day, same_day_last_year
from tally.time.windows import days_until

# The function that returns the holidays of a day by name, none on an ordinary day.
HolidayLookup = Callable[[date], Sequence[str]]
# A feast moves by a month at most from one year to the next (Easter), and lasts less than two
# weeks.
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
        return ComparableDay(before, _explain_day(day))
    ordinary = (before - weeks * WEEK for weeks in range(1, _TRIES + 1))
    found = next((earlier for earlier in ordinary if not names_of(earlier)), None)
    reason = f"{before} was {then[0]}"
    if found is None:
        return ComparableDay(None, f"{reason}, and so was that weekday for {_TRIES} weeks before")
    return ComparableDay(found, f"{reason}: the nearest earlier {found:%A} that was no holiday")


def _explain_day(day: date) -> str:
    if fiscal_day(day).week > WEEKS_A_YEAR:
        return "364 days earlier, for the fiscal year before had no 53rd week"
    return "the same week and weekday of the fiscal year before"


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
