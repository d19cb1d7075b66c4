"""The epoch of a family's definition, by day: rows of a higher one replace those of a lower."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple


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
        more = [0, *(revision.amount for revision in self.increases if revision.since <= day)]
        return max(self._matching_epochs(day), default=self.default) + more[-1]

    @property
    def highest(self) -> int:
        """An upper bound of the epochs of all days."""
        raised = max([self.default, *(span.epoch for span in self.raised)])
        return raised + max([0, *(revision.amount for revision in self.increases)])

    def _matching_epochs(self, day: date) -> Iterable[int]:
        spans = (span for span in self.raised if span.first <= day <= span.last)
        return (max(span.epoch, self.default) for span in spans)
