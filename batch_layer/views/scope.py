"""Which days a rebuild computes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain, pairwise
from typing import Literal

from batch_layer.views.pointer import Pointer

Mode = Literal["full", "days", "dirty"]
# The pointers of a run move in one conditional write, which has an upper limit.
MOST_DAYS = 10_000
LONGEST_GAP_DAYS = 366


@dataclass(frozen=True)
class Wanted:
    """What was asked for: everything, the days first..last (both inclusive), or what has become dirty."""

    mode: Mode = "dirty"
    first: date | None = None
    last: date | None = None


def parse_days(text: str) -> Wanted:
    """The days of `A..B`. Raises ValueError when it is something else."""
    try:
        first, last = (date.fromisoformat(day) for day in text.split(".."))
    except ValueError as error:
        raise ValueError(f"--days {text!r}: expected YYYY-MM-DD..YYYY-MM-DD, both inclusive") from error
    if last < first:
        raise ValueError(f"--days {text!r}: the first day is after the last")
    if (last - first).days >= MOST_DAYS:
        raise ValueError(f"--days {text!r}: more than {MOST_DAYS:,} days; rebuild them in parts")
    return Wanted("days", first, last)


def days_between(first: date, last: date) -> list[date]:
    """Every day from first to last, both inclusive."""
    return [first + timedelta(days=i) for i in range((last - first).days + 1)]


def with_gaps(days: Iterable[date]) -> set[date]:
    """The days and those between two that follow each other, on which nothing happened.

    A gap of more than a year is no quiet time but a till whose clock was wrong: its days stay unbuilt, and `missing`.
    """
    ordered = sorted(days)
    gaps = [days_between(*pair) for pair in pairwise(ordered) if (pair[1] - pair[0]).days <= LONGEST_GAP_DAYS]
    return {*ordered, *chain.from_iterable(gaps)}


@dataclass(frozen=True)
class Reach:
    """What a rebuild could publish now: the definition epoch, what it would cover, and by day and partition the first offset
    that the master does not hold."""

    epoch: int
    covered_until: datetime
    until: Mapping[date, Mapping[int, int]]


def dirty_days(reach: Reach, published: Mapping[date, Pointer], conflicts: Collection[tuple[date, date]]) -> set[date]:
    """Days whose published rows lack something that a rebuild now would have.

    A day is dirty when it has records beyond its generation's pin; when it was never built, also one without records between
    others (its zeros are true ones); when its generation was published before the day had ended; when its definition epoch is
    another one. conflicts: (day of the record, day of its first copy): both are dirty together.
    """
    never_built = with_gaps(reach.until.keys() | published.keys()) - published.keys()
    poorer = {day for day, pointer in published.items() if _has_less(pointer, reach)}
    dirty = never_built | poorer
    return dirty | {first for own, first in conflicts if own in dirty}


def _has_less(pointer: Pointer, reach: Reach) -> bool:
    """Whether a rebuild now would give the day more than its published generation does."""
    end = datetime.combine(pointer.day + timedelta(days=1), time(), UTC)
    return (
        pointer.epoch != reach.epoch
        or pointer.covered_until < min(end, reach.covered_until)
        or any(until > pointer.pinned.get(number, 0) for number, until in reach.until.get(pointer.day, {}).items())
    )
