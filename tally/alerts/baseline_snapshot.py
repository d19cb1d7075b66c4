"""Baseline snapshots: each one pins the generation of every day from which baselines are computed.

A snapshot holds no values. Rows of a generation are never changed or deleted, so a baseline read
through a snapshot is the same at any time, for every metric, also for rules that come later.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import msgspec
from msgspec import Struct

from tally.alerts.baseline import MAX_WEEKS
from tally.families.generation import Generation
from tally.time.windows import ONE_DAY, day_end, day_start

_NUMBERED_FROM = date(1970, 1, 1)
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
        start = day_start(self.day)
        covering = self.day, self.generation, self.epoch, start, day_end(self.day)
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
        return (self.first_day - _NUMBERED_FROM).days

    @property
    def days_text(self) -> str:
        """The days as stored: one JSON object, with equal bytes for equal days."""
        return msgspec.json.encode(self.days, order="sorted").decode()


_DAYS = msgspec.json.Decoder(dict[str, tuple[PinnedDay, ...]])


def parse_snapshot(first_day: date, made_at: datetime, days: str) -> BaselineSnapshot:
    """The snapshot from a stored row. Raises msgspec.DecodeError."""
    return BaselineSnapshot(first_day, made_at, _DAYS.decode(days))


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

    It has the days before its first one, as far back as its weeks reach, that a generation covers
    completely.
    """
    days = {
        family: tuple(
            PinnedDay(day, generation.generation, generation.epoch)
            for day, generation in sorted(generations.items())
            if timedelta() < first_day - day <= SPAN and _is_complete_day(generation)
        )
        for family, generations in served.items()
    }
    return BaselineSnapshot(first_day, made_at, days)


def _is_complete_day(generation: Generation) -> bool:
    start, end = day_start(generation.day), day_end(generation.day)
    return generation.covered_from <= start and end <= generation.covered_until
