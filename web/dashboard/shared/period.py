"""The period that a page shows: local days up to a date, compared with as many just before."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from serving.questions import grains
from serving.questions.question import StoreSlots
from serving.questions.stores import Store
from tally.time.day_clock import DayClock
from tally.time.windows import TimeRange

LENGTHS = (7, 28, 91)
DEFAULT_LENGTH = 28
# These lie within the years that can be queried (question.py), with room for the period before.
EARLIEST, LATEST = date(1972, 1, 1), date(2168, 1, 1)


@dataclass(frozen=True)
class Period:
    """A period of `length` local days that ends with the day `last`."""

    last: date
    length: int

    @property
    def first(self) -> date:
        """The first day."""
        return self.last - timedelta(days=self.length - 1)

    @property
    def days(self) -> list[date]:
        """Every day, ascending."""
        return [self.first + timedelta(days=i) for i in range(self.length)]

    def shift(self, periods: int) -> "Period":
        """The period this many lengths later (earlier if negative)."""
        return Period(self.last + timedelta(days=periods * self.length), self.length)

    def quarter_hours(self, store: Store) -> StoreSlots:
        """Every quarter hour of the period, UTC, by the store's own days.

        A day of a clock change has 92 or 100.
        """
        start, end = self.store_span(store)
        quarters = grains.slots(start, end, "15m", store.clock)
        return StoreSlots(store.store_id, store.clock, quarters)

    def store_span(self, store: Store) -> TimeRange:
        """From the start of the store's first day to the start of its day after the last, UTC."""
        return self.span(store.clock)

    def span(self, clock: DayClock) -> TimeRange:
        """From the start of the first day to the start of the day after the last, UTC."""
        after = self.last + timedelta(days=1)
        return TimeRange(clock.start_of_day(self.first), clock.start_of_day(after))


def parse_period(last: str, length: str, newest: date | None) -> Period:
    """The period that an address names.

    A missing or invalid part becomes its default: the newest day with events, or 28 days.
    """
    # An address may hold anything, so only a length that a reader could choose is converted.
    days = int(length) if length in {str(choice) for choice in LENGTHS} else DEFAULT_LENGTH
    # Without any events yet, today is as good a default as any day.
    default = newest or datetime.now(UTC).date()
    try:
        chosen = date.fromisoformat(last) if last else default
    except ValueError:
        chosen = default
    return Period(chosen if EARLIEST <= chosen <= LATEST else default, days)
