"""Local days: when they begin and end, and when a store is open on them."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tally.time.day_clock import DayClock
from tally.time.opening_hours import Spans
from tally.time.windows import EPOCH, WINDOW, TimeRange


class LocalDay(NamedTuple):
    """A day of a store's clock, and its instants (UTC), from inclusive, to exclusive."""

    day: date
    start: datetime
    end: datetime

    @property
    def quarter_hours(self) -> int:
        """The count of quarter hours of UTC that begin in the day: 96, at clock changes 92 or 100.

        Clocks that change by half an hour or by two hours give 94 and 98, 88 and 104. On the day
        before a store gets another clock there may be any number; there is none in a day that the
        zone has left out, as Samoa did in 2011.
        """
        return _windows_before(self.end) - _windows_before(self.start)


def local_day(day: date, clock: DayClock) -> LocalDay:
    """The day of this date, by the store's clock.

    Raises OverflowError at either end of the calendar.

    >>> clock = DayClock.from_zone(ZoneInfo("Europe/Bratislava"))
    >>> local_day(date(2026, 3, 29), clock).quarter_hours
    92
    """
    after = day + timedelta(days=1)
    return LocalDay(day, clock.start_of_day(day), clock.start_of_day(after))


def local_day_at(instant: datetime, clock: DayClock) -> LocalDay:
    """The local day that holds the instant. Every instant lies in exactly one.

    >>> at = datetime(2026, 3, 2, 1, 30, tzinfo=UTC)
    >>> local_day_at(at, DayClock.from_zone(ZoneInfo("Europe/Bratislava"), time(4))).day
    datetime.date(2026, 3, 1)
    """
    return local_day(clock.day(instant), clock)


def open_spans(day: date, spans: Spans, zone: ZoneInfo) -> Iterator[TimeRange]:
    """The spans (UTC) in which a store with these hours is open on the day, ascending.

    A time that the clock leaves out is as long after midnight as it would be; a time that it shows
    twice means the first.
    """
    midnight = datetime.combine(day, time(), zone)
    for span in spans:
        # By the clock and not by seconds: a store closes at 20:00 even if the night was shorter.
        opens, closes = ((midnight + timedelta(minutes=minute)).astimezone(UTC) for minute in span)
        # A span that lies wholly in a time that the clock leaves out would end before it begins.
        if opens < closes:
            yield TimeRange(opens, closes)


def _windows_before(instant: datetime) -> int:
    return -((EPOCH - instant) // WINDOW)
