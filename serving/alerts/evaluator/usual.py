"""The usual values that a baseline rule needs for a local day of a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tally.alerts.comparison import Usual
from tally.alerts.rule import AgainstBaseline, BaselineName, Rule


# Not a tuple: a tuple of the same fields could equal the key of another kind of reading.
@dataclass(frozen=True)
class UsualOf:
    """The windows of one local day of a store whose usual values of a metric are wanted.

    `start`: the start of the day, ms since 1970 (UTC).
    """

    metric: str
    store_id: str
    start: int
    baseline: BaselineName


# The usual values by the start of the window, ms since 1970 (UTC).
UsualWindows = Mapping[int, Usual]


class UsualSource(Protocol):
    """A source of usual values."""

    async def read(self, wanted: Sequence[UsualOf]) -> Mapping[UsualOf, UsualWindows]:
        """The usual values by day and window; windows without a known value are absent.

        Raises ViewsUnreachable when a read fails.
        """
        ...


def usual_of(rule: Rule, store_id: str, start: int) -> UsualOf | None:
    """The key of the usual values that the rule needs on the local day beginning at `start`.

    `start`: ms since 1970 (UTC). None for a rule without a baseline.
    """
    if not isinstance(rule.condition, AgainstBaseline) or rule.metric is None:
        return None
    return UsualOf(rule.metric, store_id, start, rule.condition.baseline)
