"""Which visit rules hold in which store, and from which key period on.

Rules that change are another definition of the windows from then on: each set has a revision, and
the epoch of a day (tally/epochs.py) is higher by the revisions of all stores. Both layers are given
these rules by the family itself, so that none can read a window by others than its epoch says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from tally.epochs import Revised
from tally.visits import MINUTE_SECONDS, VisitRules

DEFAULT_RULES = VisitRules()
# Before any minute of any period.
EVER = -(2**62)


class DatedVisitRules(NamedTuple):
    """Rules of the key periods that begin at this minute (since 1970, UTC) or later."""

    since: int
    rules: VisitRules
    revision: int = 0


@dataclass(frozen=True)
class StoreVisitRules:
    """By store its rules, ascending by when they begin; a store that has none has the defaults."""

    by_store: Mapping[str, tuple[DatedVisitRules, ...]] = field(default_factory=dict)

    def of(self, store_id: str, period_start: int) -> VisitRules:
        """The rules of a key period that begins at the minute (since 1970, UTC)."""
        found = DEFAULT_RULES
        for one in self.by_store.get(store_id, ()):
            if one.since <= period_start:
                found = one.rules
        return found

    @cached_property
    def revised(self) -> tuple[Revised, ...]:
        """By UTC day, ascending, how much higher than the definition's the epochs are from then on.

        A day on which rules begin has windows of those before them, too: the higher revision
        counts.
        """
        days = {day for dated in self.by_store.values() for day in _borders(dated)}
        return tuple(Revised(day, self._more(day)) for day in sorted(days))

    def _more(self, day: date) -> int:
        return sum(_highest(dated, day) for dated in self.by_store.values())


def _borders(dated: tuple[DatedVisitRules, ...]) -> Iterator[date]:
    for one in dated:
        yield _day(one.since)
        # The day after: what was in force before is so no longer.
        if one.since != EVER:
            yield _day(one.since) + timedelta(days=1)


def _highest(dated: tuple[DatedVisitRules, ...], day: date) -> int:
    """The highest revision of rules that some period of the UTC day may have."""
    ends = [*(_day(one.since) for one in dated[1:]), date.max]
    both = zip(dated, ends, strict=True)
    there = (one for one, end in both if _day(one.since) <= day <= end)
    return max((one.revision for one in there), default=0)


def _day(minute: int) -> date:
    if minute == EVER:
        return date.min
    return datetime.fromtimestamp(minute * MINUTE_SECONDS, UTC).date()
