"""A snapshot of what is usual: which generation of which day it is made of, for good.

It holds no values. Rows of a generation are never changed or deleted, so what is read by them says
the same whenever it is read, of every metric, also of rules that come later.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta

import msgspec
from msgspec import Struct

from tally.alerts.baseline import MOST_WEEKS
from tally.generation import Generation

_ONE_DAY = timedelta(days=1)
_NUMBERED_FROM = date(1970, 1, 1)
# Clocks are ahead of UTC by 14 hours at most; and two more, of which its writer may take one.
_AHEAD, SLOWEST = timedelta(hours=14 + 2), timedelta(hours=1)
# Local days of the weeks lie in UTC days of one more.
SPAN = timedelta(weeks=MOST_WEEKS, days=1)


class PinnedDay(Struct, frozen=True, array_like=True):
    """A UTC day that one generation covers whole."""

    day: date
    generation: int
    epoch: int

    @property
    def whole(self) -> Generation:
        """The generation as readers have it; how far its records reach is not kept."""
        start = datetime.combine(self.day, time(), UTC)
        covering = self.day, self.generation, self.epoch, start, start + _ONE_DAY
        return Generation(*covering, 0, start, {}, {})


class BaselineSnapshot(Struct, frozen=True):
    """The days by family, ascending.

    `first_day`: the first local day of stores that it serves, up to that of the next snapshot.
    """

    first_day: date
    made_at: datetime
    days: Mapping[str, tuple[PinnedDay, ...]]

    @property
    def number(self) -> int:
        """A later one has a higher one: days of `first_day` since 1970."""
        return (self.first_day - _NUMBERED_FROM).days

    @property
    def days_text(self) -> str:
        """The days as they are stored: one JSON object, of the same days the same bytes."""
        return msgspec.json.encode(self.days, order="sorted").decode()


_DAYS = msgspec.json.Decoder(dict[str, tuple[PinnedDay, ...]])


def stored_snapshot(first_day: date, made_at: datetime, days: str) -> BaselineSnapshot:
    """The snapshot of a stored row. Raises msgspec.DecodeError."""
    return BaselineSnapshot(first_day, made_at, _DAYS.decode(days))


def first_served(made_at: datetime) -> date:
    """The first local day that has begun nowhere when a snapshot of that instant is written.

    >>> first_served(datetime(2026, 11, 24, 0, 40, tzinfo=UTC))
    datetime.date(2026, 11, 25)
    """
    return (made_at + _AHEAD).astimezone(UTC).date() + _ONE_DAY


def made_snapshot(
    first_day: date, made_at: datetime, served: Mapping[str, Mapping[date, Generation]]
) -> BaselineSnapshot:
    """The snapshot of the generations that serve now, by family and UTC day.

    Days before its first one, as far back as its weeks reach; of these such as are covered whole.
    """
    days = {
        family: tuple(
            PinnedDay(day, one.generation, one.epoch)
            for day, one in sorted(generations.items())
            if timedelta() < first_day - day <= SPAN and _is_whole(one)
        )
        for family, generations in served.items()
    }
    return BaselineSnapshot(first_day, made_at, days)


def _is_whole(one: Generation) -> bool:
    start = datetime.combine(one.day, time(), UTC)
    return one.covered_from <= start and start + _ONE_DAY <= one.covered_until
