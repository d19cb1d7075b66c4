"""The epoch of a family's definition, by day: rows of a higher one replace those of a lower.

Visit rules of a store that change are another definition of the windows from then on: each set has
a revision, and the epoch of a day is higher by the revisions of all stores. Both layers get these
rules from the family itself, so that no layer can read a window by rules of another epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from tally.people.visits import MINUTE_SECONDS, VisitRules


class RaisedEpoch(NamedTuple):
    """Days, first to last inclusive, whose rows are recomputed under a higher epoch."""

    first: date
    last: date
    epoch: int


class EpochIncrease(NamedTuple):
    """A day from which epochs are higher by `amount`, because rules of stores have changed."""

    since: date
    amount: int


@dataclass(frozen=True)
class Epochs:
    """The epochs by day: `default`, except on `raised` days; higher by `increases` (ascending).

    >>> raised = Epochs(2, (RaisedEpoch(date(2017, 9, 1), date(2017, 9, 30), 3),))
    >>> raised.for_day(date(2017, 9, 30)), raised.for_day(date(2017, 10, 1))
    (3, 2)
    """

    default: int
    raised: tuple[RaisedEpoch, ...] = ()
    increases: tuple[EpochIncrease, ...] = ()

    def for_day(self, day: date) -> int:
        """The epoch of the day's rows: the highest that any of its spans was raised to."""
        # The highest, in any order of raising the days: a register knows no other order.
        raised = [span.epoch for span in self.raised if span.first <= day <= span.last]
        more = [0, *(revision.amount for revision in self.increases if revision.since <= day)]
        return max([self.default, *raised]) + more[-1]

    @property
    def highest(self) -> int:
        """An upper bound of the epochs of all days."""
        raised = max([self.default, *(span.epoch for span in self.raised)])
        return raised + max([0, *(revision.amount for revision in self.increases)])


# A minute before all periods.
EVER = -(2**62)


class DatedVisitRules(NamedTuple):
    """Rules of the key periods that begin at the minute `since` (since 1970, UTC) or later."""

    since: int
    rules: VisitRules
    revision: int = 0


@dataclass(frozen=True)
class StoreVisitRules:
    """The rules by store, ascending by their begin; a store without any has the defaults."""

    by_store: Mapping[str, tuple[DatedVisitRules, ...]] = field(default_factory=dict)

    def rules_for(self, store_id: str, period_start: int) -> VisitRules:
        """The rules of a key period that begins at the minute (since 1970, UTC)."""
        rules = VisitRules()
        for dated in self.by_store.get(store_id, ()):
            if dated.since <= period_start:
                rules = dated.rules
        return rules

    @cached_property
    def epoch_increases(self) -> tuple[EpochIncrease, ...]:
        """The UTC days, ascending, from which epochs exceed the definition's, and by how much.

        A day on which rules begin has windows of earlier rules, too: the higher revision counts.
        """
        stores = self.by_store.values()
        days = {day for dated in stores for day in _border_days(dated)}
        return tuple(
            EpochIncrease(day, sum(_highest_revision(dated, day) for dated in stores))
            for day in sorted(days)
        )


def _border_days(dated: tuple[DatedVisitRules, ...]) -> Iterator[date]:
    for entry in dated:
        yield _day(entry.since)
        # On the day after, the rules of before are no longer in force.
        if entry.since != EVER:
            yield _day(entry.since) + timedelta(days=1)


def _highest_revision(dated: tuple[DatedVisitRules, ...], day: date) -> int:
    """The highest revision of the rules that any period of the UTC day may have."""
    ends = [*(_day(entry.since) for entry in dated[1:]), date.max]
    spans = zip(dated, ends, strict=True)
    in_force = (entry.revision for entry, end in spans if _day(entry.since) <= day <= end)
    return max(in_force, default=0)


def _day(minute: int) -> date:
    if minute == EVER:
        return date.min
    return datetime.fromtimestamp(minute * MINUTE_SECONDS, UTC).date()
