"""The days that a rebuild computes, and the windows of each that it may claim."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Literal

from runtime.records.gaps import AcceptedGap
from tally.families.epochs import Epochs
from tally.families.generation import Generation
from tally.time.day_clock import DayClock
from tally.time.windows import (
    LAST_INSTANT,
    MAX_DAYS,
    WINDOW,
    day_end,
    day_start,
    last_utc_day,
    next_window_start,
    window_start,
)

Mode = Literal["full", "days", "dirty"]


@dataclass(frozen=True)
class Claim:
    """Windows in [covered_from, covered_until) are covered: one without a row had no events.

    through: the instant up to which every record that had arrived is counted, by partition.
    """

    covered_from: datetime
    covered_until: datetime
    through: Mapping[int, datetime]


@dataclass(frozen=True)
class Coverage:
    """The coverage that a rebuild could claim now.

    tolerance: how far ahead of its arrival an event may lie; backfills: spans of days, inclusive.
    """

    through: Mapping[int, datetime]
    first_arrival: datetime | None
    tolerance: timedelta
    backfills: Sequence[tuple[date, date]] = ()
    gaps: Sequence[AcceptedGap] = ()

    def days(self) -> set[date]:
        """The days with a claim, with or without records.

        Each span contributes at most its newest MAX_DAYS days.
        """
        # The slowest partition decides: a day is claimed for the stores of all of them.
        until = window_start(min(self.through.values()))
        spans = [*self.backfills]
        if self.first_arrival is not None and self.first_arrival < until:
            # Up to the day of the last whole window: just after midnight the new day has none yet.
            spans.append((self.first_arrival.date(), (until - WINDOW).date()))
        numbers = (_ordinals(first, last)[-MAX_DAYS:] for first, last in spans)
        return {date.fromordinal(number) for number in chain.from_iterable(numbers)}

    def claim(self, day: date) -> Claim:
        """The claim of a generation of the day."""
        through = {
            number: min([instant, *self._limits(day, number)])
            for number, instant in self.through.items()
        }
        covered_from = self._coverage_start(day)
        if covered_from is None:
            # An empty span covers nothing, and windows with a row are served as provisional.
            return Claim(day_start(day), day_start(day), through)
        return Claim(covered_from, window_start(min(through.values())), through)

    def limit(self, day: date) -> datetime:
        """The instant that no claim on the day may pass, however much still arrives."""
        if self._coverage_start(day) is None:
            return day_start(day)
        return min([LAST_INSTANT, *map(window_start, self._limits(day))])

    def _coverage_start(self, day: date) -> datetime | None:
        """The instant from which the day is covered; None for a day before the first arrival.

        Records of such a day are of a till whose clock was wrong, or old receipts; other events of
        that day are unknown.
        """
        if any(first <= day <= last for first, last in self.backfills):
            return day_start(day)
        # Coverage follows arrivals, not days with records: by those, one till dated nine months
        # back made 275 days of zeros for all stores (seen).
        if self.first_arrival is None or day < self.first_arrival.date():
            return None
        return max(day_start(day), next_window_start(self.first_arrival))

    def _limits(self, day: date, partition: int | None = None) -> list[datetime]:
        """First arrivals of the gaps that may have held records of the day.

        Only gaps of the given partition are considered; None considers all.
        """
        start = day_start(day)
        return [
            gap.first_arrival
            for gap in self.gaps
            # An event may lie ahead of its own arrival by the tolerance.
            if start < gap.last_arrival + self.tolerance
            and (partition is None or gap.is_raw or gap.partition == partition)
        ]


@dataclass(frozen=True)
class RebuildRequest:
    """The request: all days, the days first..last (both inclusive), or the dirty days."""

    mode: Mode = "dirty"
    first: date | None = None
    last: date | None = None


def build_store_request(first: date, last: date, clock: DayClock) -> RebuildRequest:
    """The UTC days that a store's days touch, first to last inclusive; one day touches 2 or 3."""
    begin, end = clock.start_of_day(first), clock.start_of_day(last + timedelta(days=1))
    return RebuildRequest("days", begin.date(), last_utc_day(end))


def days_between(first: date, last: date) -> list[date]:
    """Every day from first to last, both inclusive."""
    return [*map(date.fromordinal, _ordinals(first, last))]


def _ordinals(first: date, last: date) -> range:
    return range(first.toordinal(), last.toordinal() + 1)


@dataclass(frozen=True)
class RebuildScope:
    """What a rebuild could publish now.

    until: by day and partition, the offset behind the last record that the fates of the day's
    records depend on.
    """

    epochs: Epochs
    coverage: Coverage
    until: Mapping[date, Mapping[int, int]]


def all_days(scope: RebuildScope, published: Mapping[date, Generation]) -> set[date]:
    """Days with records, days that are served already, and claimed days without any record."""
    return {*scope.until, *published, *scope.coverage.days()}


DayReason = Literal[
    "records", "never built", "definition", "coverage", "claims too much", "key period", "asked for"
]


def dirty_days(scope: RebuildScope, published: Mapping[date, Generation]) -> dict[date, DayReason]:
    """Days whose published rows lack something that a rebuild now would have, and the reason.

    A day is dirty when it has records beyond its generation's pin, or records of other days beyond
    it change the fates of its own; when it was never built, even without records (its zeros are
    true zeros); when its claim differs from that of a rebuild now; when its definition epoch has
    changed.

    Epoch 1, one partition, first arrival on the 1st, everything read until the 3rd at 10:20:

        day  | published: pinned, covered until | its records end at | dirty
        1st  | 40, 2nd 00:00                    | 40                 | no
        2nd  | 55, 3rd 00:00                    | 57                 | yes, a late record
        3rd  | 55, 3rd 09:00                    | 55                 | yes, 10:15 can be claimed
        Feb. | nothing                          | 41                 | yes, once: a wrong clock

    A void of the 3rd for a receipt of the 1st, at offset 60, lets the records of the 1st end at 61.
    """
    missing = all_days(scope, published) - published.keys()
    found: dict[date, DayReason] = dict.fromkeys(missing, "never built")
    for day, served in published.items():
        if reason := _find_reason(served, scope):
            found[day] = reason
    return found


def newest(days: Collection[date]) -> list[date]:
    """The days, ascending; if one flip cannot publish all, the older ones stay dirty."""
    return sorted(days)[-MAX_DAYS:]


def _find_reason(pointer: Generation, scope: RebuildScope) -> DayReason | None:
    """Why a rebuild now would give the day another generation than the published one."""
    claim = scope.coverage.claim(pointer.day)
    start, end = day_start(pointer.day), day_end(pointer.day)
    # The instants are clamped to the day: a past day is covered to its end by a rebuild at any
    # later time, and unclamped every run would find every day outdated.
    instants = pointer.covered_until, claim.covered_until
    had, has = (max(start, min(end, until)) for until in instants)
    reached = scope.until.get(pointer.day, {}).items()
    if any(until > pointer.pinned.get(number, 0) for number, until in reached):
        return "records"
    if pointer.epoch != scope.epochs.for_day(pointer.day):
        return "definition"
    # The claim includes records that have turned out to be lost since.
    if had > max(start, scope.coverage.limit(pointer.day)):
        return "claims too much"
    return "coverage" if pointer.covered_from != claim.covered_from or had < has else None
