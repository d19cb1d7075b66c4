"""The calendar of one store: its local days with opening hours, holidays and fiscal day."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from serving.questions.question import DATE, check_years
from serving.questions.stores import Store
from tally.errors import BadQuery
from tally.time.fiscal import WEEK, ComparableDay, FiscalDay, fiscal_day, like_for_like
from tally.time.holidays import HolidayNames, missing_reason
from tally.time.local_days import LocalDay, local_day
from tally.time.windows import TimeRange, day_start, days_until

MAX_DAYS = 400
# The day that the first one is compared with lies at most this far back.
_A_YEAR = 53 * WEEK


class DescribedDay(NamedTuple):
    """A local day of a store; `spans` are its opening hours, None if the stores file has none."""

    local: LocalDay
    spans: list[TimeRange] | None
    holidays: HolidayNames
    fiscal: FiscalDay
    like: ComparableDay


@dataclass(frozen=True)
class StoreCalendar:
    """The local days of a store from `first` to before `end`, ascending.

    `country` and `subdivision` are those of the first day; `holidays_unknown` says why days may
    lack their holidays, and is None if they do not.
    """

    store: Store
    first: date
    end: date
    country: str | None
    subdivision: str | None
    holidays_unknown: str | None
    days: tuple[DescribedDay, ...]


def parse_day_span(from_: str, to: str) -> tuple[date, date]:
    """The first day and the one after the last. Raises BadQuery for texts that are no such span."""
    first, end = _day("from", from_), _day("to", to)
    if first >= end:
        raise BadQuery("from", f"from: {from_} is not before to: {to}")
    # Limited, for a holiday is looked up some hundred times.
    if (end - first).days > MAX_DAYS:
        raise BadQuery("to", f"to: at most {MAX_DAYS} days; ask for them in parts")
    return first, end


def store_calendar(store: Store, first: date, end: date) -> StoreCalendar:
    """The calendar of days that parse_day_span() has accepted."""
    entry, last = store.entry.valid_on(first), end - timedelta(days=1)
    return StoreCalendar(
        store,
        first,
        end,
        entry.country,
        entry.subdivision,
        missing_reason(entry.country, first - _A_YEAR, last),
        tuple(_days(store, first, end)),
    )


def _days(store: Store, first: date, end: date) -> Iterator[DescribedDay]:
    for day in days_until(first, end):
        local, holidays = local_day(day, store.clock), store.entry.holidays(day)
        # A date that the zone has skipped is no day.
        if local.start < local.end:
            spans = store.entry.open_spans(day, store.zone)
            like = like_for_like(day, store.entry.holidays)
            yield DescribedDay(local, spans, holidays, fiscal_day(day), like)


def _day(field: str, text: str) -> date:
    try:
        day = date.fromisoformat(text) if DATE.match(text) else None
    except ValueError:
        day = None
    if day is None:
        raise BadQuery(field, f"{field}: {text[:40]!r}: expected a day as 2026-11-26")
    check_years(field, day_start(day))
    return day
