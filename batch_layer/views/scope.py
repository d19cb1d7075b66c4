"""Which days a rebuild computes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from tally.errors import TallyError

Mode = Literal["full", "days", "dirty"]


@dataclass(frozen=True)
class Wanted:
    """What was asked for: everything, the days first..last (both inclusive), or what has become dirty."""

    mode: Mode = "dirty"
    first: date | None = None
    last: date | None = None


def parse_days(text: str) -> Wanted:
    """The days of `A..B`. Raises TallyError when it is something else."""
    try:
        first, last = (date.fromisoformat(day) for day in text.split(".."))
    except ValueError as error:
        raise TallyError(f"--days {text!r}: expected YYYY-MM-DD..YYYY-MM-DD, both inclusive") from error
    if last < first:
        raise TallyError(f"--days {text!r}: the first day is after the last")
    return Wanted("days", first, last)


def days_between(first: date, last: date) -> list[date]:
    """Every day from first to last, both inclusive."""
    return [first + timedelta(days=i) for i in range((last - first).days + 1)]


def dirty_days(
    reached: Mapping[date, Mapping[int, int]], pinned: Mapping[date, Mapping[int, int]], conflicts: Collection[tuple[date, date]]
) -> set[date]:
    """Days whose published rows may lack something.

    reached: by day and partition the first offset that the master does not hold; pinned: the same of the published
    generation; conflicts: (day of the record, day of its first copy). A record beyond the pin makes its day dirty, and a conflict
    makes the day of its first copy dirty with it.
    """
    beyond = {
        day for day, offsets in reached.items()
        if day not in pinned or any(until > pinned[day].get(partition, 0) for partition, until in offsets.items())
    }  # fmt: skip
    return beyond | {first for own, first in conflicts if own in beyond}
