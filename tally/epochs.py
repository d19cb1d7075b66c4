"""The epoch of a family's definition, by day: rows of a higher one replace those of a lower."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple


class Raised(NamedTuple):
    """Days, first to last inclusive, whose rows are computed anew under a higher epoch."""

    first: date
    last: date
    epoch: int


class Revised(NamedTuple):
    """From this day on epochs are so much higher: rules of stores have been changed."""

    since: date
    more: int


@dataclass(frozen=True)
class Epochs:
    """`default`, but for the days that were raised; higher by what was `revised` (ascending).

    >>> raised = Epochs(2, (Raised(date(2017, 9, 1), date(2017, 9, 30), 3),))
    >>> raised.of(date(2017, 9, 30)), raised.of(date(2017, 10, 1))
    (3, 2)
    """

    default: int
    raised: tuple[Raised, ...] = ()
    revised: tuple[Revised, ...] = ()

    def of(self, day: date) -> int:
        """The epoch of the day's rows: the highest that any of its spans was raised to."""
        # The highest, in whatever order the days were raised: a register knows no other order.
        more = [0, *(one.more for one in self.revised if one.since <= day)]
        return max(self._spans(day), default=self.default) + more[-1]

    @property
    def highest(self) -> int:
        """No day has a higher one."""
        raised = max([self.default, *(one.epoch for one in self.raised)])
        return raised + max([0, *(one.more for one in self.revised)])

    def _spans(self, day: date) -> Iterable[int]:
        spans = (one for one in self.raised if one.first <= day <= one.last)
        return (max(one.epoch, self.default) for one in spans)
