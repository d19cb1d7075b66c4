"""The days that a rebuild computes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from batch_layer.views.plan.coverage import Coverage
from tally.families.epochs import Epochs
from tally.families.generation import Generation
from tally.time.day_clock import DayClock
from tally.time.windows import MAX_DAYS, day_end, day_start, last_utc_day

Mode = Literal["full", "days", "dirty"]


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
    count = (last - first).days + 1
    return [first + timedelta(days=i) for i in range(count)]


@dataclass(frozen=True)
class RebuildScope:
    """The extent of what a rebuild could publish now.

    It has the definition's epochs, the coverage, and by day and partition the first offset that the
    master does not hold.
    """

    epochs: Epochs
    coverage: Coverage
    until: Mapping[date, Mapping[int, int]]


def all_days(scope: RebuildScope, published: Mapping[date, Generation]) -> set[date]:
    """Days with records, days that are served already, and claimed days without any record."""
    return {*scope.until, *published, *scope.coverage.days()}


def dirty_days(
    scope: RebuildScope, published: Mapping[date, Generation], linked: Iterable[tuple[date, date]]
) -> set[date]:
    """Days whose published rows lack something that a rebuild now would have.

    A day is dirty when it has records beyond its generation's pin; when it was never built, even
    without records (its zeros are true zeros); when its claim differs from that of a rebuild now;
    when its definition epoch has changed. linked: (day of the record, day of its first copy or of
    the record that it takes back): both are dirty together.

    Epoch 1, one partition, first arrival on the 1st, everything read until the 3rd at 10:20:

        day  | published: pinned, covered until | its records end at | dirty
        1st  | 40, 2nd 00:00                    | 40                 | no
        2nd  | 55, 3rd 00:00                    | 57                 | yes, a late record
        3rd  | 55, 3rd 09:00                    | 55                 | yes, 10:15 can be claimed
        Feb. | nothing                          | 41                 | yes, once: a wrong clock

    With the conflict (2nd, 1st), a receipt of the 2nd with the identity of one of the 1st, the
    1st is dirty too.
    """
    dirty = {
        day
        for day in all_days(scope, published)
        if day not in published or _is_outdated(published[day], scope)
    }
    return dirty | {first for day, first in linked if day in dirty}


def newest(days: Collection[date]) -> list[date]:
    """The days, ascending; only the newest if there are more than one flip can publish.

    The others stay dirty for the next run.
    """
    return sorted(days)[-MAX_DAYS:]


def _is_outdated(pointer: Generation, scope: RebuildScope) -> bool:
    """Whether a rebuild now would give the day another generation than the published one."""
    claim = scope.coverage.claim(pointer.day)
    start, end = day_start(pointer.day), day_end(pointer.day)
    # The instants are clamped to the day: a past day is covered to its end by a rebuild at any
    # later time, and unclamped every run would find every day outdated.
    had, has = (
        max(start, min(end, until)) for until in (pointer.covered_until, claim.covered_until)
    )
    return (
        pointer.epoch != scope.epochs.for_day(pointer.day)
        or pointer.covered_from != claim.covered_from
        or had < has
        # The claim includes records that have turned out to be lost since.
        or had > max(start, scope.coverage.limit(pointer.day))
        or any(
            until > pointer.pinned.get(number, 0)
            for number, until in scope.until.get(pointer.day, {}).items()
        )
    )
