"""The visit rules of each store, and the key periods from which they hold.

Rules that change are another definition of the windows from then on: each set has a revision, and
the epoch of a day (tally/families/epochs.py) is higher by the revisions of all stores. Both layers
get these rules from the family itself, so that no layer can read a window by rules of another
epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from tally.families.epochs import EpochIncrease
from tally.people.visits import MINUTE_SECONDS, VisitRules

DEFAULT_RULES = VisitRules()
# A minute before all periods.
EVER = -(2**62)


class DatedVisitRules(NamedTuple):
    """Rules of the key periods that begin at the minute `since` (since 1970, UTC) or later."""

    since: int
    rules: VisitRules
    revision: int = 0


@dataclass(frozen=True)
class StoreVisitRules:
    """The rules by store, ascending by their begin; a store that has none has the defaults."""

    by_store: Mapping[str, tuple[DatedVisitRules, ...]] = field(default_factory=dict)

    def rules_for(self, store_id: str, period_start: int) -> VisitRules:
        """The rules of a key period that begins at the minute (since 1970, UTC)."""
        rules = DEFAULT_RULES
        for dated in self.by_store.get(store_id, ()):
            if dated.since <= period_start:
                rules = dated.rules
        return rules

    @cached_property
    def epoch_increases(self) -> tuple[EpochIncrease, ...]:
        """The UTC days, ascending, from which epochs exceed the definition's, and by how much.

        A day on which rules begin has windows of the rules before them, too: the higher revision
        counts.
        """
        days = {day for dated in self.by_store.values() for day in _border_days(dated)}
        return tuple(EpochIncrease(day, self._total_increase(day)) for day in sorted(days))

    def _total_increase(self, day: date) -> int:
        return sum(_highest_revision(dated, day) for dated in self.by_store.values())


def _border_days(dated: tuple[DatedVisitRules, ...]) -> Iterator[date]:
    for entry in dated:
        yield _day(entry.since)
        # On the day after, the rules of before are no longer in force.
        if entry.since != EVER:
            yield _day(entry.since) + timedelta(days=1)


def _highest_revision(dated: tuple[DatedVisitRules, ...], day: date) -> int:
    """The highest revision of the rules that any period of the UTC day may have."""
    ends = [*(_day(entry.since) for entry in dated[1:]), date.max]
    both = zip(dated, ends, strict=True)
    there = (entry for entry, end in both if _day(entry.since) <= day <= end)
    return max((entry.revision for entry in there), default=0)


def _day(minute: int) -> date:
    if minute == EVER:
        return date.min
    return datetime.fromtimestamp(minute * MINUTE_SECONDS, UTC).date()
