"""What is usual in a window of a store: mean and variance of the same hours of earlier weeks.

All numbers are whole or fractions, so that whoever asks again, in whatever order, has the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from typing import NamedTuple

from msgspec import Struct

from tally.alerts.comparison import ExactValue, Usual
from tally.alerts.rule import BaselineName

# Start of a window, and what the clock shows then in minutes since midnight.
ShownWindow = tuple[int, int]
# Weeks that are looked at. Of one more it is asked only whether the store was there by then.
WEEKS: Mapping[BaselineName, int] = {"same_weekday_4w": 4, "hour_of_week": 8}
MOST_WEEKS = max(WEEKS.values()) + 1
# Of windows that are told of together, in minutes of the clock.
_MINUTES: Mapping[BaselineName, int] = {"same_weekday_4w": 1, "hour_of_week": 60}
_WEEK = timedelta(days=7)
_FIRST_DAY = date.min + timedelta(days=2)


class UsualSample(NamedTuple):
    """The value of an earlier window as what is above and below its line; below a sum it is 1."""

    above: ExactValue
    below: ExactValue = 1


class EarlierDay(Struct, frozen=True):
    """A local day of a store, as the generations of a snapshot have it.

    `windows`: of each what the clock shows as it begins, in minutes since midnight, and its sample;
    None where it has no value, or one that may not be told. `is_complete`: generations cover all of
    it. `has_events`: there is any.
    """

    windows: Sequence[tuple[int, UsualSample | None]]
    is_complete: bool = True
    has_events: bool = True

    @property
    def counts(self) -> bool:
        """Whether it says what is usual: a day on which nothing came was closed, or is missing."""
        return self.is_complete and self.has_events


NO_DAY = EarlierDay((), is_complete=False, has_events=False)


def earlier_dates(baseline: BaselineName, day: date, first_day: date) -> list[date]:
    """The same weekdays before a snapshot's first day, newest first, one more than it has weeks.

    In:  `day`: that is judged, at or behind `first_day`. An old snapshot goes on to say what was
         usual when it was made.
    Out: fewer where the calendar has none before: its very first days begin before it in some zone.
    """
    weeks_behind = (day - first_day) // _WEEK + 1
    weeks = range(weeks_behind, weeks_behind + WEEKS[baseline] + 1)
    return [day - number * _WEEK for number in weeks if number * _WEEK <= day - _FIRST_DAY]


def usual_windows(
    baseline: BaselineName, windows: Iterable[ShownWindow], earlier: Sequence[EarlierDay]
) -> dict[int, Usual]:
    """By window what is usual in it; one of which too little is known is absent.

    In:  `windows`: those of one local day; `earlier`: the days of earlier_dates(), in their order.
    Out: nothing of a store that was not there by the oldest of the weeks, of hours of which fewer
         than half of the weeks say anything, and of an hour that the clock shows twice that day.
    """
    weeks = WEEKS[baseline]
    # A store younger than that has begun somewhere between: its first weeks are not usual.
    if not any(one.has_events for one in earlier[weeks - 1 :]):
        return {}
    samples = [_by_slot(baseline, one) for one in earlier[:weeks] if one.counts]
    found = {}
    for start, clock in _shown_once(windows):
        slot = clock // _MINUTES[baseline]
        each = [some[slot] for some in samples if slot in some]
        if 2 * len(each) >= weeks and (usual := _usual(each)) is not None:
            found[start] = usual
    return found


def _shown_once(windows: Iterable[ShownWindow]) -> Iterator[ShownWindow]:
    listed = list(windows)
    times = Counter(clock for _, clock in listed)
    return (one for one in listed if times[one[1]] == 1)


def _by_slot(baseline: BaselineName, day: EarlierDay) -> dict[int, list[UsualSample]]:
    times = Counter(clock for clock, _ in day.windows)
    found: dict[int, list[UsualSample]] = {}
    for clock, sample in day.windows:
        # Of an hour that comes twice nobody can say which of them was the usual one.
        if sample is not None and times[clock] == 1:
            found.setdefault(clock // _MINUTES[baseline], []).append(sample)
    return found


def _usual(days: Sequence[Sequence[UsualSample]]) -> Usual | None:
    samples = [one for day in days for one in day]
    below = Fraction(sum(one.below for one in samples))
    # A share of nothing in all of these weeks.
    if below <= 0:
        return None
    mean = sum(one.above for one in samples) / below
    squares = sum(Fraction(one.above) ** 2 / one.below for one in samples)
    # Of those seen, for those that are not: with one less than there are.
    most = len(samples)
    variance = (squares / below - mean**2) * most / max(1, most - 1)
    return Usual(mean, variance, len(days))
