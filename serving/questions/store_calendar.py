"""The calendar of one store: its local days with opening hours, holidays and fiscal day."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from serving.questions.question import DATE, check_years
from serving.questions.stores import Store, holiday_lookup
from tally.errors import BadQuery
from tally.time.fiscal import WEEK, FiscalDay, fiscal_day
from tally.time.holidays import HolidayNames, missing_reason
from tally.time.like_for_like import ComparableDay, like_for_like
from tally.time.local_days import LocalDay, OpenSpan, local_day

MAX_DAYS = 400
# The day that the first one is compared with lies at most this far back.
_A_YEAR = 53 * WEEK


class DescribedDay(NamedTuple):
    """A local day of a store; `spans` are its opening hours, None if the stores file has none."""

    local: LocalDay
    spans: tuple[OpenSpan, ...] | None
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
    names_of = holiday_lookup(store)
    for more in range((end - first).days):
        day = first + timedelta(days=more)
        local, holidays = local_day(day, store.clock), tuple(names_of(day))
        # A date that the zone has skipped is no day.
        if local.start < local.end:
            like = like_for_like(day, names_of)
            yield DescribedDay(local, store.open_spans(day), holidays, fiscal_day(day), like)


def _day(field: str, text: str) -> date:
    try:
        day = date.fromisoformat(text) if DATE.match(text) else None
    except ValueError:
        day = None
    if day is None:
        raise BadQuery(field, f"{field}: {text[:40]!r}: expected a day as 2026-11-26")
    check_years(field, datetime.combine(day, time(), UTC))
    return day
