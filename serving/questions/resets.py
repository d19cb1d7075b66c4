"""The resets of a level: it starts again at 0 with each day of its store, by the store's clock."""

from dataclasses import dataclass
from datetime import date, datetime

from tally.time.day_clock import DayClock
from tally.time.local_days import LocalDay, local_day, local_day_at
from tally.time.windows import WINDOW, TimeRange, next_window_start


@dataclass(frozen=True)
class Resets:
    """The beginnings of a store's days, independent of the zone that an answer is shown in."""

    clock: DayClock

    def day(self, instant: datetime) -> TimeRange:
        """The windows of the store's day that holds the instant, UTC: 88 to 104 of them."""
        return _day_windows(local_day_at(instant, self.clock))

    def day_before(self, end: datetime) -> TimeRange:
        """The windows of the day that holds the last window before an end; it may end there too."""
        return self.day(end - WINDOW)

    def day_on(self, day: date) -> TimeRange:
        """The windows of the store's day of this date."""
        return _day_windows(local_day(day, self.clock))


def _day_windows(day: LocalDay) -> TimeRange:
    # A window belongs to the day in which it begins: Monrovia's midnights were on no quarter hour.
    return TimeRange(next_window_start(day.start), next_window_start(day.end))
