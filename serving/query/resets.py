"""When a level begins anew: with each day of its store, by the clock of that store."""

from dataclasses import dataclass
from datetime import date, datetime

from serving.query.grains import Slot
from tally.calendar.days import LocalDay, day_of, local_day
from tally.day_clock import DayClock
from tally.windows import WINDOW, window_start


@dataclass(frozen=True)
class Resets:
    """The beginnings of a store's days, whatever zone an answer is shown in."""

    clock: DayClock

    def day(self, instant: datetime) -> Slot:
        """The windows of the store's day that holds the instant, UTC: 92, 96 or 100 of them."""
        return _windows_of(day_of(instant, self.clock))

    def day_before(self, end: datetime) -> Slot:
        """Those of the day that holds the last window before an end, which may end with it."""
        return self.day(end - WINDOW)

    def own_day(self, day: date) -> Slot:
        """Those of the store's day of this date."""
        return _windows_of(local_day(day, self.clock))


def _windows_of(day: LocalDay) -> Slot:
    # A window is of the day in which it begins: Monrovia's midnights were on no quarter hour.
    return Slot(_on_grid(day.start), _on_grid(day.end))


def _on_grid(instant: datetime) -> datetime:
    start = window_start(instant)
    return start if start == instant else start + WINDOW
