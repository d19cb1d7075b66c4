"""Baselines of a window of a store: mean and variance of the same hours of earlier weeks.

All numbers are integers or fractions, so a repeated computation, in any order, has the same result.
A snapshot pins the generation of every day from which baselines are computed. It holds no values:
rows of a generation are never changed or deleted, so a baseline read through a snapshot is the same
at any time, for every metric, also for rules that come later.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tally.families.generation import Generation
from tally.time.windows import EPOCH, ONE_DAY, day_end, day_start

BaselineName = Literal["same_weekday_4w", "hour_of_week"]

# A sum is an integer; a ratio is the fraction of its two sums, Fraction(numerator, denominator).
ExactValue: TypeAlias = int | Fraction


class WindowBaseline(Struct, frozen=True):
    """The baseline of one window: mean in the metric's unit, and variance in its square.

    `days`: number of days in the mean; `snapshot`: number of the snapshot that it comes from.
    """

    mean: ExactValue
    variance: ExactValue
    days: int = 0
    snapshot: int = 0


# Start of a window, and the store's clock at that instant in minutes since midnight.
ClockWindow = tuple[int, int]
# Weeks that are averaged. One more week only shows whether the store already existed.
WEEKS: Mapping[BaselineName, int] = {"same_weekday_4w": 4, "hour_of_week": 8}
MAX_WEEKS = max(WEEKS.values()) + 1
# Length of the slot whose windows share a baseline, in minutes of the clock.
_MINUTES: Mapping[BaselineName, int] = {"same_weekday_4w": 1, "hour_of_week": 60}
_WEEK = timedelta(weeks=1)
_FIRST_DAY = date.min + timedelta(days=2)


class BaselineSample(NamedTuple):
    """The value of an earlier window as numerator and denominator; 1 below a sum."""

    above: ExactValue
    below: ExactValue = 1


class EarlierDay(Struct, frozen=True):
    """A local day of a store, as the generations of a snapshot have it.

    `windows`: the clock at the start of each window, in minutes since midnight, and its sample;
    None where it has no value, or one that must not be disclosed. `is_complete`: generations cover
    the whole day. `has_events`: the day has at least one event.
    """

    windows: Sequence[tuple[int, BaselineSample | None]]
    is_complete: bool = True
    has_events: bool = True

    @property
    def is_usable(self) -> bool:
        """Whether the day is part of the baseline; one without events was closed, or is missing."""
        return self.is_complete and self.has_events


def earlier_dates(baseline: BaselineName, day: date, first_day: date) -> list[date]:
    """The same weekdays before a snapshot's first day, newest first, one more than its weeks.

    In:  `day`: the judged day, at or after `first_day`. An old snapshot keeps the baseline of the
         time when it was made.
    Out: fewer dates at the start of the calendar, whose first days begin before it in some zones.
    """
    weeks_behind = (day - first_day) // _WEEK + 1
    weeks = range(weeks_behind, weeks_behind + WEEKS[baseline] + 1)
    return [day - number * _WEEK for number in weeks if number * _WEEK <= day - _FIRST_DAY]


def compute_baselines(
    baseline: BaselineName, windows: Iterable[ClockWindow], earlier: Sequence[EarlierDay]
) -> dict[int, WindowBaseline]:
    """The baseline of each window; a window with too few samples is absent.

    In:  `windows`: those of one local day; `earlier`: the days of earlier_dates(), in their order.
    Out: no entry for a store that did not exist by the oldest of the weeks, for hours with samples
         in fewer than half of the weeks, and for an hour that the clock shows twice that day.
    """
    weeks = WEEKS[baseline]
    # A younger store opened during these weeks, and its first weeks are no baseline.
    if not any(day.has_events for day in earlier[weeks - 1 :]):
        return {}
    samples = [_group_by_slot(baseline, day) for day in earlier[:weeks] if day.is_usable]
    found, judged = {}, [*windows]
    times = Counter(clock for _, clock in judged)
    for start, clock in judged:
        if times[clock] > 1:
            continue
        slot = clock // _MINUTES[baseline]
        weekly = [by_slot[slot] for by_slot in samples if slot in by_slot]
        if 2 * len(weekly) >= weeks and (usual := _average_samples(weekly)) is not None:
            found[start] = usual
    return found


def _group_by_slot(baseline: BaselineName, day: EarlierDay) -> dict[int, list[BaselineSample]]:
    times = Counter(clock for clock, _ in day.windows)
    found: dict[int, list[BaselineSample]] = {}
    for clock, sample in day.windows:
        # If an hour occurs twice, it is unknown which of the two corresponds to the judged hour.
        if sample is not None and times[clock] == 1:
            found.setdefault(clock // _MINUTES[baseline], []).append(sample)
    return found


def _average_samples(days: Sequence[Sequence[BaselineSample]]) -> WindowBaseline | None:
    samples = [sample for day in days for sample in day]
    below = Fraction(sum(sample.below for sample in samples))
    # The denominator of the ratio was zero in all of these weeks.
    if below <= 0:
        return None
    mean = sum(sample.above for sample in samples) / below
    squares = sum(Fraction(sample.above) ** 2 / sample.below for sample in samples)
    # Sample variance: divides by the number of samples minus one (Bessel's correction).
    most = len(samples)
    variance = (squares / below - mean**2) * most / max(1, most - 1)
    return WindowBaseline(mean, variance, len(days))


# Clocks are ahead of UTC by at most 14 hours; of the two hours more, the writer may take one.
_AHEAD, SLOWEST = timedelta(hours=14 + 2), timedelta(hours=1)
# The local days of these weeks lie in UTC days of one day more.
SPAN = timedelta(weeks=MAX_WEEKS, days=1)


class PinnedDay(Struct, frozen=True, array_like=True):
    """A UTC day that one generation covers completely."""

    day: date
    generation: int
    epoch: int

    @property
    def full_generation(self) -> Generation:
        """The generation as readers use it; the extent of its records is not stored."""
        start, end = day_start(self.day), day_end(self.day)
        covering = self.day, self.generation, self.epoch, start, end
        return Generation(*covering, 0, start, {}, {})


class BaselineSnapshot(Struct, frozen=True):
    """The pinned days by family, ascending.

    `first_day`: the first local day of stores that the snapshot serves, up to that of the next one.
    """

    first_day: date
    made_at: datetime
    days: Mapping[str, tuple[PinnedDay, ...]]

    @property
    def number(self) -> int:
        """The snapshot's number: days of `first_day` since 1970, so later ones are higher."""
        return (self.first_day - EPOCH.date()).days

    @property
    def days_text(self) -> str:
        """The days as stored: one JSON object, with equal bytes for equal days."""
        return msgspec.json.encode(self.days, order="sorted").decode()


_DAYS = msgspec.json.Decoder(dict[str, tuple[PinnedDay, ...]])


def parse_snapshot(first_day: date, made_at: datetime, days: str) -> BaselineSnapshot:
    """The snapshot from a stored row. Raises msgspec.DecodeError."""
    return BaselineSnapshot(first_day, made_at, _DAYS.decode(days))


def repin_days(days: str, served: Mapping[str, Mapping[date, Generation]]) -> str:
    """The same stored days by the generations that serve them now.

    A day that none serves, or one of another definition, is left out.
    """
    repinned = {
        family: tuple(
            replace(pinned, generation=served[family][pinned.day].generation)
            for pinned in pinned_days
            if pinned.day in served.get(family, {})
            and served[family][pinned.day].epoch == pinned.epoch
        )
        for family, pinned_days in _DAYS.decode(days).items()
    }
    return msgspec.json.encode(repinned, order="sorted").decode()


def first_served_day(made_at: datetime) -> date:
    """The first local day that has begun in no zone when a snapshot of that instant is written.

    >>> first_served_day(datetime(2026, 11, 24, 0, 40, tzinfo=UTC))
    datetime.date(2026, 11, 25)
    """
    return (made_at + _AHEAD).astimezone(UTC).date() + ONE_DAY


def build_snapshot(
    first_day: date, made_at: datetime, served: Mapping[str, Mapping[date, Generation]]
) -> BaselineSnapshot:
    """The snapshot of the generations that serve now, by family and UTC day.

    It has the days before its first one, as far as its weeks reach, that a generation covers whole.
    """
    days = {
        family: tuple(
            PinnedDay(day, generation.generation, generation.epoch)
            for day, generation in sorted(generations.items())
            if timedelta() < first_day - day <= SPAN
            and generation.covered_from <= day_start(day)
            and day_end(day) <= generation.covered_until
        )
        for family, generations in served.items()
    }
    return BaselineSnapshot(first_day, made_at, days)
